# pyright: basic
"""Numbers of logs and what volumes keep, over restarts of every kind (LOG-, VOL-50)."""

import pytest

RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]


def lose_the_records(node):
    return node.restart_runtime(down_seconds=1.0, forget=True)


def test_log_01_each_container_has_its_folder_in_that_of_its_pod(on_node, busybox):
    async def story(node):
        pod = node.apply(busybox(a="echo hi; sleep 3600"))
        await node.advance(3)
        folder = f"{node.settings.pod_logs_dir}/default_p_{pod.metadata.uid}"
        stat = node.files.stat(f"{folder}/a")
        return node.files.list(folder), node.files.list(f"{folder}/a"), stat.mode & 0o777

    assert on_node(story) == (["a"], ["0.log"], 0o755)


def test_log_02_log_50_numbers_go_on_where_the_runtime_has_forgotten(on_node, busybox, seen):
    async def story(node):
        node.apply(busybox(a="sleep 3; exit 1"))
        await node.advance(12)
        before = [c["attempt"] for c in seen(node).calls("CreateContainer")]
        await lose_the_records(node)
        await node.advance(60)
        return before, [c["attempt"] for c in seen(node).calls("CreateContainer")]

    before, after = on_node(story)
    assert after[: len(before)] == before
    assert after == sorted(set(after)), "a number never comes twice"
    assert after[len(before)] == before[-1] + 1


def test_log_03_log_10_previous_is_not_found_after_a_full_restart_though_the_log_is_there(
    on_node, busybox, seen
):
    async def story(node):
        trigger = {"script": "sleep 4; exit 88", "restartPolicy": "Never", "restartPolicyRules": RULES}
        pod = node.apply(busybox(spec={"restartPolicy": "Never"}, a="echo one; sleep 3600", b=trigger))
        await node.advance(8)
        folder = f"{node.settings.pod_logs_dir}/default_p_{pod.metadata.uid}/a"
        return node.files.list(folder), node.pod("p").status.container_statuses[0]

    logs, status = on_node(story)
    assert sorted(logs)[:2] == ["0.log", "1.log"]
    last = status.last_state.terminated
    assert (last.reason, last.exit_code, last.container_id or "") == ("RestartingAllContainers", 137, "")
    assert last.message == "The container is removed because RestartAllContainers in place"


@pytest.mark.parametrize("what", ["container", "sandbox", "full", "kubelet", "runtime"])
def test_vol_50_what_was_written_outlives_every_restart(on_node, busybox, what):
    async def story(node):
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        script = (
            "[ -e /v/x ] || echo kept > /v/x; sleep 6; exit 1"
            if what == "container"
            else ("[ -e /v/x ] || echo kept > /v/x; trap 'exit 0' TERM; sleep 3600 & wait")
        )
        spec = {"volumes": [{"name": "v", "emptyDir": {}}], "terminationGracePeriodSeconds": 2}
        trigger = {"script": "sleep 5; exit 88", "restartPolicy": "Never", "restartPolicyRules": RULES}
        more = {"b": trigger} if what == "full" else {}
        node.apply(busybox(spec=spec, a={"script": script, **mount}, **more))
        await node.advance(4)
        if what == "sandbox":
            await node.stop_sandbox("default", "p")
        elif what == "kubelet":
            await node.restart_kubelet(down_seconds=3)
        elif what == "runtime":
            await lose_the_records(node)
        await node.advance(7)
        found = await node.exec("default", "p", "a", ["cat", "/v/x"])
        return found, node.pod("p").status.container_statuses[0].restart_count

    (code, out, _), restarts = on_node(story)
    assert (code, out) == (0, b"kept\n")
    assert (restarts > 0) is (what != "kubelet")
