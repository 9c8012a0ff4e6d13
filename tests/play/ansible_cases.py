"""The plays that test_against_ansible.py gives to orc and to ansible-playbook.

`touch: WORD` is their only action; `breaks` names the hosts that it fails on.
"""

from __future__ import annotations

LIVE = "hosts: web:db"
CASES: dict[str, str] = {
    "tasks_in_step": f"- {LIVE}\n  tasks: [touch: a, touch: b]\n",
    "a_failed_host_leaves_and_stays_out_of_later_plays": f"""
- {LIVE}
  tasks: [touch: a, {{touch: b, breaks: h2 h5}}, touch: c]
- {LIVE}
  tasks: [touch: d]
- hosts: h2
  tasks: [touch: e]
- hosts: h1
  tasks: [touch: f]
""",
    "all_hosts_failed_end_the_run": """
- hosts: web
  tasks: [{touch: a, breaks: h1 h2 h3}, touch: b]
- hosts: db
  tasks: [touch: c]
""",
    "serial_number": f"- {LIVE}\n  serial: 2\n  tasks: [touch: a, touch: b]\n",
    "serial_percent": f"- {LIVE}\n  serial: 40%\n  tasks: [touch: a, touch: b]\n",
    "serial_small_percent_is_one": f"- {LIVE}\n  serial: 1%\n  tasks: [touch: a]\n",
    "serial_list_repeats_its_last": f"- {LIVE}\n  serial: [1, 2]\n  tasks: [touch: a, touch: b]\n",
    "serial_list_of_percents": f"- {LIVE}\n  serial: [1, 50%]\n  tasks: [touch: a, touch: b]\n",
    "serial_zero_is_all": f"- {LIVE}\n  serial: 0\n  tasks: [touch: a, touch: b]\n",
    "serial_of_a_variable": f"""
- {LIVE}
  vars: {{many: 4}}
  serial: "{{{{ many }}}}"
  tasks: [touch: a, touch: b]
""",
    "serial_goes_on_while_a_host_of_the_batch_is_left": f"""
- {LIVE}
  serial: 2
  tasks: [{{touch: a, breaks: h1 h4}}, touch: b]
- {LIVE}
  tasks: [touch: c]
""",
    "serial_ends_with_a_batch_that_failed_whole": f"""
- {LIVE}
  serial: 2
  tasks: [{{touch: a, breaks: h3 h4}}, touch: b]
- {LIVE}
  tasks: [touch: c]
""",
    "serial_after_a_batch_that_lost_a_host": f"""
- {LIVE}
  serial: 2
  tasks: [{{touch: a, breaks: h1 h3 h4}}, touch: b]
""",
    "max_fail_percentage_not_exceeded": f"""
- {LIVE}
  max_fail_percentage: 50
  tasks: [{{touch: a, breaks: h1 h2 h3}}, touch: b]
- hosts: db
  tasks: [touch: c]
""",
    "max_fail_percentage_exceeded": f"""
- {LIVE}
  max_fail_percentage: 49
  tasks: [{{touch: a, breaks: h1 h2 h3}}, touch: b]
- hosts: db
  tasks: [touch: c]
""",
    "max_fail_percentage_of_zero": f"""
- {LIVE}
  serial: 3
  max_fail_percentage: 0
  tasks: [{{touch: a, breaks: h2}}, touch: b]
""",
    "max_fail_percentage_adds_up_within_a_batch": f"""
- {LIVE}
  serial: 4
  max_fail_percentage: 30
  tasks: [{{touch: a, breaks: h1}}, {{touch: b, breaks: h2}}, touch: c]
""",
    "max_fail_percentage_counts_no_rescued_host": f"""
- {LIVE}
  max_fail_percentage: 10
  tasks:
    - block: [{{touch: a, breaks: h1 h2 h3}}]
      rescue: [touch: r]
    - touch: b
""",
    "any_errors_fatal_ends_after_the_task": f"""
- {LIVE}
  any_errors_fatal: true
  tasks: [{{touch: a, breaks: h1}}, touch: b]
- hosts: db
  tasks: [touch: c]
""",
    "any_errors_fatal_of_one_task_in_batches": f"""
- {LIVE}
  serial: 3
  tasks:
    - {{touch: a, breaks: h2}}
    - {{touch: b, breaks: h3, any_errors_fatal: true}}
    - touch: c
""",
    "any_errors_fatal_and_always": f"""
- {LIVE}
  any_errors_fatal: true
  tasks:
    - block: [{{touch: a, breaks: h4}}, touch: b]
      always: [touch: c, touch: d]
    - touch: e
""",
    "any_errors_fatal_and_rescue": f"""
- {LIVE}
  any_errors_fatal: true
  tasks:
    - block: [{{touch: a, breaks: h4}}, touch: b]
      rescue: [touch: r]
      always: [touch: c]
    - touch: d
""",
    "any_errors_fatal_with_ignore_errors": f"""
- {LIVE}
  any_errors_fatal: true
  tasks: [{{touch: a, breaks: h1, ignore_errors: true}}, touch: b]
""",
    "rescue_and_always": f"""
- {LIVE}
  tasks:
    - block: [touch: a, {{touch: b, breaks: h1 h5}}, touch: c]
      rescue: [touch: r1, touch: r2]
      always: [touch: x]
    - touch: d
""",
    "rescue_that_fails": f"""
- {LIVE}
  tasks:
    - block: [{{touch: a, breaks: h1 h5}}]
      rescue: [{{touch: r1, breaks: h1}}, touch: r2]
      always: [touch: x, {{touch: y, breaks: h3}}, touch: z]
    - touch: d
""",
    "always_without_rescue": f"""
- {LIVE}
  tasks:
    - block: [{{touch: a, breaks: h2}}, touch: b]
      always: [touch: x]
    - touch: d
- {LIVE}
  tasks: [touch: e]
""",
    "nested_blocks": f"""
- {LIVE}
  tasks:
    - block:
        - block: [{{touch: a, breaks: h1 h4}}]
          rescue: [touch: inner, {{touch: again, breaks: h4}}]
        - {{touch: b, breaks: h2}}
        - block: [touch: c]
          always: [touch: d]
      rescue:
        - block: [{{touch: outer, breaks: h2}}]
          rescue: [touch: deepest]
      always: [touch: e]
    - touch: f
""",
    "what_failed_is_known_in_the_rescue": f"""
- {LIVE}
  tasks:
    - block: [{{touch: a, breaks: h2}}, {{touch: b, when: size > 5 and no_such_thing}}]
      rescue:
        - touch: "{{{{ ansible_failed_task.name }}}}"
        - {{touch: c, when: ansible_failed_result is failed}}
    - touch: d
""",
    "always_inside_what_is_rescued": f"""
- {LIVE}
  tasks:
    - block:
        - block: [{{touch: a, breaks: h1}}]
          always: [touch: x]
      rescue: [touch: r]
    - touch: b
- {LIVE}
  tasks: [touch: c]
""",
    "block_in_always_and_in_rescue": f"""
- {LIVE}
  tasks:
    - block: [{{touch: a, breaks: h3 h6}}]
      rescue:
        - block: [{{touch: b, breaks: h3}}]
          always: [touch: c]
      always:
        - block: [{{touch: d, breaks: h1}}]
          rescue: [touch: e]
    - touch: f
""",
    "serial_with_rescue": f"""
- {LIVE}
  serial: 2
  tasks:
    - block: [{{touch: a, breaks: h1 h2}}]
      rescue: [touch: r]
    - touch: b
""",
    "when_of_hosts_variables": f"""
- {LIVE}
  vars: {{least: 3}}
  tasks:
    - {{touch: a, when: size >= least}}
    - {{touch: b, when: ["'db' in group_names", size != 5]}}
    - {{touch: c, when: false}}
    - {{touch: d, when: other is not defined or other}}
    - {{touch: e, when: "inventory_hostname in groups['web']"}}
""",
    "when_that_cannot_be_answered_fails_the_host": f"""
- {LIVE}
  tasks: [{{touch: a, when: "size > 4 or no_such_thing"}}, touch: b]
""",
    "when_of_a_block": f"""
- {LIVE}
  tasks:
    - block: [touch: a, {{touch: b, breaks: h1 h2, when: size > 1}}]
      rescue: [touch: r]
      when: size < 3
""",
    "register": f"""
- {LIVE}
  tasks:
    - {{touch: a, breaks: h2 h3, ignore_errors: true, register: first}}
    - {{touch: b, when: first is failed}}
    - {{touch: c, when: first is succeeded and first.rc == 0}}
    - {{touch: d, when: size > 4, register: second}}
    - {{touch: e, when: second is skipped}}
    - {{touch: f, when: second is changed}}
    - {{touch: g, when: "hostvars['h2'].first.rc == 1 and size == 6"}}
""",
    "failed_when_and_changed_when": f"""
- {LIVE}
  tasks:
    - {{touch: a, breaks: h2, register: it, failed_when: it.rc == 0 and size > 5}}
    - {{touch: b, register: that, changed_when: size < 3}}
    - {{touch: c, when: that is changed}}
""",
    "until_it_works": """
- hosts: web
  tasks:
    - {touch: a, works_at: 3, register: it, until: it.rc == 0, retries: 5, delay: 0}
    - {touch: b, when: it.attempts == 3}
""",
    "until_three_retries_by_default": """
- hosts: h1
  tasks:
    - {touch: a, works_at: 9, register: it, until: it.rc == 0, delay: 0, ignore_errors: true}
    - {touch: b, when: it is failed}
""",
    "retries_without_until": """
- hosts: h1:h2
  tasks:
    - {touch: a, works_at: 3, retries: 2, delay: 0}
    - {touch: b, works_at: 5, retries: 1, delay: 0}
""",
    "until_holds_of_what_never_failed": """
- hosts: h1
  tasks: [{touch: a, register: it, until: "false", retries: 2, delay: 0}, touch: b]
""",
    "ignore_errors": f"""
- {LIVE}
  tasks:
    - {{touch: a, breaks: h1 h2, ignore_errors: true}}
    - block: [{{touch: b, breaks: h3}}]
      ignore_errors: true
    - {{touch: c, ignore_errors: "{{{{ size > 5 }}}}", breaks: h5 h6}}
    - touch: d
""",
    "an_unreachable_host_leaves_without_rescue": """
- hosts: h1:dead:h2
  tasks:
    - block: [touch: a, {touch: b, breaks: h2}]
      rescue: [touch: r]
      always: [touch: x]
    - touch: c
- hosts: all
  tasks: [touch: d]
""",
    "a_batch_of_unreachable_hosts_ends_the_run": """
- hosts: dead:h1
  serial: 1
  tasks: [touch: a]
""",
    "variables_of_plays_blocks_and_tasks": f"""
- {LIVE}
  vars: {{who: play, both: "{{{{ who }}}}-{{{{ size }}}}"}}
  tasks:
    - touch: "1-{{{{ both }}}}"
    - block: ["touch": "2-{{{{ who }}}}", {{touch: "3-{{{{ both }}}}", vars: {{who: task}}}}]
      vars: {{who: block}}
""",
    "magic_variables": """
- hosts: web:db
  serial: 2
  tasks:
    - {touch: a, breaks: h3}
    - touch: "{{ ansible_play_batch | length }}-{{ ansible_play_batch | first }}"
    - touch: "{{ ansible_play_hosts | length }}-{{ ansible_play_hosts_all | length }}"
    - touch: "{{ group_names | first }}-{{ hostvars.h2.size }}"
""",
}

TAGS = f"""
- {LIVE}
  tags: p
  tasks:
    - {{touch: a, tags: x}}
    - {{touch: b, tags: [y, z]}}
    - touch: c
    - {{touch: d, tags: always}}
    - {{touch: e, tags: [never, n]}}
    - block: [{{touch: f, tags: x}}, touch: g]
      tags: "y, w"
- {LIVE}
  tasks: [touch: h, {{touch: i, tags: x}}]
"""
SELECTIONS = [
    *(["--tags", tags] for tags in ("x", "y,n", "p", "all", "tagged", "untagged", "never")),
    *(["--skip-tags", tags] for tags in ("x", "always", "tagged", "all", "y,p")),
    ["--tags", "y", "--skip-tags", "w"],
]

# Where orc does something else on purpose, as the README says; with what it does.
DIFFERENT: dict[str, tuple[str, str]] = {
    "an_unreachable_host_counts_for_max_fail_percentage": (
        """
- hosts: h1:h2:dead
  max_fail_percentage: 0
  tasks: [touch: a, touch: b]
""",
        "h1 a, h2 a",
    ),
    "who_was_rescued_after_any_errors_fatal_is_in_later_plays": (
        """
- hosts: web
  any_errors_fatal: true
  tasks:
    - block: [{touch: a, breaks: h1}]
      rescue: [touch: r]
- hosts: web
  tasks: [touch: b]
""",
        "h1 a, h2 a, h3 a, h1 r, h2 r, h3 r, h1 b, h2 b, h3 b",
    ),
    "a_play_whose_last_hosts_fail_ends_the_run": (
        """
- hosts: web
  tasks: [{touch: a, breaks: h1}]
- hosts: web
  tasks: [{touch: b, breaks: h2 h3}]
- hosts: db
  tasks: [touch: c]
""",
        "h1 a, h2 a, h3 a, h2 b, h3 b",
    ),
    "a_host_that_failed_before_an_always_counts_for_max_fail_percentage": (
        """
- hosts: web
  max_fail_percentage: 0
  tasks:
    - block: [{touch: a, breaks: h1}]
      always: [touch: x]
    - touch: b
""",
        "h1 a, h2 a, h3 a, h1 x, h2 x, h3 x",
    ),
}
