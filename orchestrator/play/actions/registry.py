"""Every action by its name. A new one is a file here and a line below."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.play.action import AnyAction
from orchestrator.play.actions import (
    assert_,
    choose_replicas,
    compare_ranks,
    copy,
    debug,
    drain,
    end_surge,
    fail,
    kv_store,
    pause,
    preflight,
    probe,
    pull_image,
    put_back,
    restart_group,
    router,
    run,
    script,
    set_aside,
    stage_weights,
    start,
    stop,
    template,
    undrain,
    wait_healthy,
    write_env,
)

ACTIONS: Mapping[str, AnyAction] = {
    action.name: action
    for action in (
        preflight.ACTION,
        pull_image.ACTION,
        stage_weights.ACTION,
        kv_store.ACTION,
        start.ACTION,
        wait_healthy.ACTION,
        router.ACTION,
        compare_ranks.ACTION,
        probe.ACTION,
        choose_replicas.ACTION,
        drain.ACTION,
        set_aside.ACTION,
        put_back.ACTION,
        restart_group.ACTION,
        undrain.ACTION,
        end_surge.ACTION,
        stop.ACTION,
        run.ACTION,
        script.ACTION,
        copy.ACTION,
        template.ACTION,
        write_env.ACTION,
        pause.ACTION,
        assert_.ACTION,
        debug.ACTION,
        fail.ACTION,
    )
}
