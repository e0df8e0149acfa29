"""The work queue (POD-106)."""

from kubelet_emu.workqueue import WorkQueue


def test_the_last_writer_wins_and_due_means_strictly_before():
    queue = WorkQueue()
    queue.enqueue("a", now=0.0, delay_seconds=10.0)
    queue.enqueue("a", now=0.0, delay_seconds=1.0)
    queue.enqueue("b", now=0.0, delay_seconds=0.5)
    queue.enqueue("c", now=0.0, delay_seconds=99.0)
    assert queue.due_at("a") == 1.0
    assert queue.take_due(0.5) == ()
    assert queue.take_due(1.0) == ("b",)
    assert queue.take_due(1.5) == ("a",)
    assert queue.take_due(2.0) == ()
    assert len(queue) == 1
