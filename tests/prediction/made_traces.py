"""Hand-made traces: every number in them is chosen, so that what is predicted from them can be said beforehand."""

from resnetx.record.traces import LayerTimes, Trace, TracedBatch, TracedLayer


def layer(name, forward_s, backward_s, gradient_bytes=0):
    return TracedLayer(
        name=name, forward_s=[forward_s], backward_s=[backward_s], communication_s=[], gradient_bytes=gradient_bytes
    )


def batch(size, layers, *, clean_s=None, update_s=0.0, **changed):
    fields = {
        "clock": "host",
        "layers": layers,
        "input_s": [0.0],
        "input_wait_s": [0.0],
        "host_to_device_s": [0.0],
        "update_s": [update_s],
        "step_s": None,
        "clean_step_s": clean_s,
        "device_busy": None,
        "host_bound": False,
        "gradient_copy_Bps": 1e12,
        **changed,
    }
    return TracedBatch(batch_size=size, times=LayerTimes(**fields), peak_memory_bytes=None)


def trace(*batches, **changed):
    fields = {
        "kind": "trace",
        "schema": 1,
        "how": "imported",
        "source": "a trace",
        "workload": "Tiny",
        "request": None,
        "device": "NVIDIA H200",
        "cpu": "Intel(R) Xeon(R) Platinum 8480C",
        "cpus": 2,
        "sm_clock_Hz": None,
        "software": None,
        "measured_at": None,
        "batches": list(batches),
        "communication": [],
        "unknown": {},
        **changed,
    }
    return Trace(**fields)
