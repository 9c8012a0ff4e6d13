"""The part of a shell script that goes into `/var/tmp/orc`, where every login may write.

/var/tmp is everybody's, and so is what is below it: a link that somebody has put in the place of a
directory would make another write, as root perhaps, wherever it leads. So no link is followed, and
what follows is written below the working directory, which nobody can exchange meanwhile.
"""

from __future__ import annotations

from orchestrator.runtime.container import FILES_DIRECTORY

# `below MODE NAME`: into a directory of the working directory, made with the mode where there is
# none. `into_shared`: into FILES_DIRECTORY. Both say on stderr why they could not.
INTO_SHARED = """
no_link() {
  [ -L "$1" ] || return 0
  echo "$(pwd -P)/${1#./} is a symbolic link, which is not followed" >&2
  return 1
}
below() {
  no_link "./$2" || return 1
  wanted=$(pwd -P)/$2
  [ -d "./$2" ] || said=$(mkdir -m "$1" "./$2" 2>&1) || [ -d "./$2" ] ||
    { echo "$wanted: $said" >&2; return 1; }
  # A link that was put there just now is noticed as well.
  cd -P "./$2" && [ "$(pwd -P)" = "$wanted" ] && return 0
  echo "$wanted is no directory that can be used" >&2
  return 1
}
into_shared() {
  shared=FILES_DIRECTORY
  cd -P "${shared%/*}" && below 1777 "${shared##*/}"
}
""".replace("FILES_DIRECTORY", FILES_DIRECTORY)
