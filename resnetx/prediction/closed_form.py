"""What an iteration takes where a formula says it: `docs/ssgd.md`, equations 1 to 5.

The simulation of `ssgd` gives the same (tests hold it to that) in more time. No formula is known to us where ranks take
different times, share the cores of a host, send two messages at once, or wait in the backward pass for parameters
(FSDP): these are simulated. So is a host that takes time to queue the work of a step (`queue_s`), unless all else of
it runs ahead of the device.
"""

from collections.abc import Sequence

from resnetx.prediction.step import StepTimes, Stretch, TimedMessage


def iteration_s(
    step: StepTimes,
    messages: Sequence[TimedMessage],
    cuts: Sequence[int],
    overlap: tuple[bool, bool],
    by: Stretch,
    fetched: Sequence[TimedMessage] = (),
    contention: float = 0.0,
) -> float:
    """Seconds from one update to the next, of ranks that all take the same times.

    `cuts`: after how many layers of the backward pass each message is ready. `overlap`: of reading and of the copy to
    the device with the iteration before. `fetched`: parameters that layers wait for, which are sent from the update on.
    `contention`: of the time in which messages are hidden behind the passes, what these lose.
    """
    reading_s, copy_s = step.input_s * by.reading, step.host_to_device_s * by.copying
    reads_ahead, copies_ahead = overlap
    waits_s = reading_s + copy_s if not reads_ahead else copy_s if not copies_ahead else 0.0
    host_s, queueing_s = step.host_s * by.host, step.queue_s * by.queueing
    begin_s = waits_s + host_s  # of the forward pass, since the update before
    passes_s = _passes_s(step, messages, cuts, by, fetched, begin_s)
    if contention and messages:
        passes_s += contention * hidden_s(messages, by, passes_s - step.compute_s * by.compute)
    if host_s and queueing_s:  # it queues behind what it does once in a step, and the update behind that
        passes_s = max(passes_s, queueing_s + step.update_s * by.compute)
    if not reads_ahead:
        return begin_s + passes_s
    arriving_s = max(reading_s, copy_s) if copies_ahead else reading_s + copy_s
    return max(arriving_s, begin_s + passes_s, 0.0 if host_s else queueing_s)


def hidden_s(messages: Sequence[TimedMessage], by: Stretch, exposed_s: float) -> float:
    """How long messages are on their way while the ranks compute; `exposed_s`: while these wait."""
    return max(0.0, by.messages * sum(message.time_s for message in messages) - exposed_s)


def _passes_s(
    step: StepTimes,
    messages: Sequence[TimedMessage],
    cuts: Sequence[int],
    by: Stretch,
    fetched: Sequence[TimedMessage],
    begin_s: float,
) -> float:
    """From the beginning of the forward pass to the end of the update; `begin_s`: since the update before."""
    forward_s, ends_s = _forward_s(step, fetched, by, begin_s), step.backward_ends_s
    sent_s, free_s = 0.0, forward_s + ends_s[-1] * by.compute
    slowness, stretch = by.compute, by.messages  # the loop is run for every message of a hundred thousand points
    for message, cut in zip(messages, cuts, strict=True):
        ready_s = forward_s + ends_s[cut] * slowness
        sent_s = (ready_s if ready_s > sent_s else sent_s) + message.time_s * stretch
        if message.unpack_s:
            free_s = max(free_s, sent_s) + message.unpack_s * slowness
    return max(free_s, sent_s) + step.update_s * slowness


def _forward_s(step: StepTimes, fetched: Sequence[TimedMessage], by: Stretch, begin_s: float) -> float:
    """The forward pass, in which layers wait for parameters that come one after the other from the update on."""
    if not fetched:
        return step.forward_s * by.compute
    times_s = {message.layers[0]: message.time_s * by.messages for message in fetched}
    done_s, arrived_s = 0.0, -begin_s
    for layer in step.layers:
        if layer.name in times_s:
            arrived_s += times_s[layer.name]
            done_s = max(done_s, arrived_s)
        done_s += layer.forward_s * by.compute
    return done_s
