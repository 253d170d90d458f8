"""The cost of a Monitor during training: the same steps with and without one, timed in turns in one run."""

import numpy as np
from setting import Answer, Spread, Table, main, number
from steps import BATCH, DEPTH, WIDTH, inputs, loss, network, training

from gradwalk.torch.monitor import Monitor
from gradwalk.torch.probe import probe


def measure(quick: bool) -> Answer:
    """Compare the records with `probe`, then time them."""
    model, x = network(), inputs()
    walk = probe(model, x, loss)
    with Monitor(model, 1) as monitor:
        training(model, x, 1, monitor)
    assert np.allclose(monitor.records[0].log_norm, walk.log_norm, atol=1e-4), "the record differs from the probe"

    training(model, x, 20)
    table = Table(f"Monitor, {DEPTH} x {WIDTH}, batch {BATCH}", ("recorded", "step with / without"))
    answer = Answer([table])
    for every, steps in ((100, 100), (1, 10)):
        ratios = []
        for _ in range(2 if quick else 9):
            with Monitor(model, every) as monitor:
                watched = training(model, x, steps, monitor)
            assert len(monitor.records) == steps // every
            ratios.append(watched / training(model, x, steps))
        ratio = Spread.of(ratios)
        answer.numbers.append({"every": every, "ratio": vars(ratio)})
        table.add(f"every {every} steps" if every > 1 else "every step", ratio)
        if every == 100:
            answer.aim(
                "a Monitor every 100 steps takes less than 5 % of a step", number(ratio.median), ratio.median < 1.05
            )
    table.add("every 100 steps, from the row above", f"{1 + (ratio.median - 1) / 100:.4f}")
    return answer


if __name__ == "__main__":
    main(__doc__, measure)
