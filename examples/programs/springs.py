"""A soft body is thrown so that it arrives upside down at a place: found by differentiating through the simulation.

Masses on a grid are held by springs between neighbours and along diagonals; gravity and the air act on each. How far
the masses are from where they should be at the end is a function of how each was thrown, and its gradient goes back
through every step of time. The minimiser is the one of the logistic regression.

Sources: E. Hairer et al., Geometric numerical integration, 2006, I.1 (the semi-implicit Euler method); Y. Hu et al.,
DiffTaichi: differentiable programming for physical simulation, 2020 (the idea).
"""

import torch
from logistic_lbfgs import minimise
from support import Value, alone

WIDTH, HEIGHT, GAP = 6, 4, 0.15
STIFFNESS, DAMPING, DRAG, GRAVITY, STEP = 600.0, 1.5, 0.05, 9.81, 0.004


def body(kind):
    """Places of the masses (24, 2), the two ends of each spring, and its length at rest."""
    row, column = torch.meshgrid(torch.arange(HEIGHT, **kind), torch.arange(WIDTH, **kind), indexing="ij")
    places = torch.stack([column.flatten(), row.flatten()], dim=1) * GAP
    places = places - places.mean(dim=0)
    distance = torch.cdist(places, places)
    near = torch.triu(distance < 1.5 * GAP, diagonal=1).nonzero()
    a, b = near.unbind(dim=1)
    return places, (a, b), distance[a, b].unsqueeze(1)


def forces(x, v, ends, rest, drag):
    """The force on each mass, of weight one, at places x with velocities v; all are (n, 2)."""
    a, b = ends
    along = x[b] - x[a]
    length = along.norm(dim=1, keepdim=True)
    along = along / length
    closing = ((v[b] - v[a]) * along).sum(dim=1, keepdim=True)
    pull = (STIFFNESS * (length - rest) + DAMPING * closing) * along
    air = -drag * v * v.norm(dim=1, keepdim=True)
    weight = torch.tensor([0.0, -GRAVITY], dtype=x.dtype, device=x.device)
    return (air + weight).index_add(0, a, pull).index_add(0, b, pull, alpha=-1)


def simulate(x, v, ends, rest, steps, drag=DRAG):
    """The places at the beginning and after each step of time, (steps + 1, n, 2), and the last velocities."""
    path = [x]
    for _ in range(steps):
        v = v + STEP * forces(x, v, ends, rest, drag)
        x = x + STEP * v
        path.append(x)
    return torch.stack(path), v


def main(settings):
    kind = {"dtype": getattr(torch, settings.dtype), "device": settings.device}
    places, ends, rest = body(kind)
    goal = torch.tensor([3.0, 0.8], **kind) - places
    steps = settings.size(200, 40)
    time = steps * STEP

    def loss_of(v):
        path, last = simulate(places, v, ends, rest, steps)
        # And it should arrive whole: the parts not flying away from each other.
        spread = (last - last.mean(dim=0)).square().mean()
        return (path[-1] - goal).square().sum(dim=1).mean() + 1e-4 * spread, path

    def evaluate(flat):
        v = flat.detach().view_as(places).requires_grad_()
        loss, _ = loss_of(v)
        (gradient,) = torch.autograd.grad(loss, v)
        return loss.item(), gradient.flatten()

    # As a first guess: to the goal in a straight line, with half a turn on the way.
    turn = torch.stack([-places[:, 1], places[:, 0]], dim=1) * (torch.pi / time)
    guess = torch.tensor([3.0, 0.8], **kind) / time + turn
    first, gradient = evaluate(guess.flatten())
    iterations = settings.track(range(settings.size(25, 3)), "throwing")
    flat, _, values = minimise(evaluate, guess.flatten(), 1e-9 if settings.dtype == "float64" else 1e-5, iterations)
    with torch.no_grad():
        _, before = loss_of(guess)
        _, after = loss_of(flat.view_as(places))
    miss = (after[-1] - goal).norm(dim=1)
    settings.say(
        f"mean distance from the goal: {(before[-1] - goal).norm(dim=1).mean().item():.3f} at the first throw, "
        f"{miss.mean().item():.4f} after {len(values) - 1} iterations"
    )
    settings.picture("springs.png", lambda axes: draw(axes, before, after, goal, ends), (8, 7), 2, 1)
    return {
        "loss of the first throw": Value(first),
        "norm of its gradient": Value(gradient.norm().item()),
        "loss of the last throw": Value(values[-1], within=1e-6),
        "mean distance from the goal": Value(miss.mean().item(), within=1e-4),
    }


def draw(axes, before, after, goal, ends):
    """The body at six times of the first throw and of the last, with the path of one corner."""
    springs = list(zip(ends[0].tolist(), ends[1].tolist(), strict=True))
    for ax, path, title in zip(axes, (before, after), ("the first guess", "the throw that was found"), strict=True):
        ax.plot(*zip(*goal.tolist(), strict=True), "x", color="tab:red", label="where they should be")
        ax.plot(*zip(*path[:, 0].tolist(), strict=True), ":", color="gray", label="path of a corner")
        for n in range(0, len(path), (len(path) - 1) // 5 or 1):
            x = path[n].tolist()
            for a, b in springs:
                ax.plot(*zip(x[a], x[b], strict=True), color="tab:blue", linewidth=0.6, alpha=0.3 + 0.7 * n / len(path))
            ax.plot(*zip(x[0], strict=True), ".", color="black")
        ax.set(title=title, aspect="equal")
        ax.legend(fontsize=8, loc="lower center")


if __name__ == "__main__":
    alone(main)
