"""Every action by its name. A new one is a file here and a line below."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.play.action import AnyAction
from orchestrator.play.actions import (
    assert_,
    compare_ranks,
    debug,
    fail,
    kv_store,
    preflight,
    probe,
    pull_image,
    router,
    run,
    start,
    stop,
    wait_healthy,
)

ACTIONS: Mapping[str, AnyAction] = {
    action.name: action
    for action in (
        preflight.ACTION,
        pull_image.ACTION,
        kv_store.ACTION,
        start.ACTION,
        wait_healthy.ACTION,
        router.ACTION,
        compare_ranks.ACTION,
        probe.ACTION,
        stop.ACTION,
        run.ACTION,
        assert_.ACTION,
        debug.ACTION,
        fail.ACTION,
    )
}
