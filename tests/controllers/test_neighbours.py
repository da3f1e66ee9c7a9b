"""Two arms keep out of each other: the geometry, the law, and what drives them at each other."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from robot_rl.controllers.arms.mujoco import Options
from robot_rl.controllers.kinematics import capsules_of, chain_of
from robot_rl.controllers.neighbours import FAULT_M, STOP_M, give_up_into
from robot_rl.controllers.outline import (
    capsules_from,
    nearest_points,
    outline_at,
    outline_of,
    separation,
)
from robot_rl.geometry import pose_inverse, quat_normalize
from robot_rl.sim.franka_facts import PANDA
from robot_rl.sim.panda import add_panda
from robot_rl.types import Fault, LimitFlags
from tests.controllers import truth
from tests.controllers.bench import GIVEN, HARDWARE, TASK, TOOL, make_loop, moved, run
from tests.controllers.truth import TrueArm
from tests.controllers.two_arms import BESIDE, FACING, WIDE, Attack, TwoArms, Witness

CHAIN, BODIES = chain_of(PANDA, 7), outline_of(PANDA, (), 7, TOOL[:3])
OUTLINE = capsules_of(BODIES)
SOFT = replace(
    TASK.compliance,
    stiffness=(400.0,) * 3 + (30.0,) * 3,
    damping=(40.0,) * 3 + (4.0,) * 3,
    error_clip=(0.05,) * 3 + (0.3,) * 3,
)
STIFF = replace(
    TASK.compliance,
    stiffness=(4000.0,) * 3 + (300.0,) * 3,
    damping=(130.0,) * 3 + (18.0,) * 3,
    error_clip=(0.02,) * 3 + (0.15,) * 3,
    nullspace_stiffness=30.0,
)


def random_q(rng):
    return rng.uniform(PANDA.joint_low, PANDA.joint_high)


def random_pose(rng, reach=1.0):
    return np.concatenate((rng.uniform(-reach, reach, 3), quat_normalize(rng.standard_normal(4))))


def distance_of(capsule, others):
    """From one capsule to many: of 400 points on its axis to the nearest ones on theirs."""
    points = capsule[:3] + np.linspace(0.0, 1.0, 400)[:, None, None] * (capsule[3:6] - capsule[:3])
    start, along = others[:, :3], others[:, 3:6] - others[:, :3]
    size = np.maximum((along**2).sum(1), 1e-12)
    share = np.clip(((points - start) * along).sum(2) / size, 0.0, 1.0)
    apart = np.linalg.norm(start + share[..., None] * along - points, axis=2)
    return float((apart - others[:, 6]).min() - capsule[6])


# ------------------------------------------------------------------------------------ the geometry


def test_the_nearest_points_of_two_segments_are_nearer_than_any_others():
    rng, shares = np.random.default_rng(0), np.linspace(0.0, 1.0, 101)
    for case in range(300):
        a, b, c, d = rng.uniform(-1.0, 1.0, (4, 3))
        if case % 5 == 1:
            d = c + (b - a) * rng.uniform(-2.0, 2.0)  # parallel
        elif case % 5 == 2:
            b = a
        elif case % 5 == 3:
            b, d = a, c
        elif case % 5 == 4:  # they cross
            d = 2.0 * (a + 0.3 * (b - a)) - c
        s, t = nearest_points(a, b, c, d)
        assert 0.0 <= s <= 1.0 and 0.0 <= t <= 1.0
        found = np.linalg.norm(a + s * (b - a) - c - t * (d - c))
        one = a + shares[:, None] * (b - a)
        two = c + shares[:, None] * (d - c)
        sampled = np.linalg.norm(one[:, None] - two[None], axis=-1).min()
        assert found <= sampled + 1e-9 and sampled <= found + 0.03
        if case % 5 == 4:
            assert found < 1e-6


def test_the_outline_is_where_the_links_of_the_simulation_are():
    arm, rng = TrueArm(Options(), GIVEN), np.random.default_rng(1)
    for _ in range(10):
        q = random_q(rng)
        _, links, turns = arm.tool_at(q)
        ends = truth.rods(links.reshape(1, -1), turns.reshape(1, -1), BODIES)[0]
        np.testing.assert_allclose(
            outline_at(q, CHAIN, OUTLINE)[:, :6], ends.reshape(-1, 6), atol=1e-6
        )


def surface_of(model, data, geom, rng):
    """Points `(n, 3)` on a shape of the model: what it is made of, in its own frame, turned."""
    size, count = model.geom_size[geom], 400
    kind = model.geom_type[geom]
    unit = rng.standard_normal((count, 3))
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        points = size * np.array(np.meshgrid(*[[-1, 0, 1]] * 3)).reshape(3, -1).T
    elif kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        points = size[0] * unit
        points[:, 2] += rng.uniform(-size[1], size[1], count)
    else:
        assert kind == mujoco.mjtGeom.mjGEOM_CYLINDER
        points = size[0] * unit / np.linalg.norm(unit[:, :2], axis=1)[:, None]
        points[:, 2] = rng.choice([-1.0, 1.0], count) * size[1]
    return data.geom_xpos[geom] + points @ data.geom_xmat[geom].reshape(3, 3).T


@pytest.mark.parametrize("fingers", [False, True])
def test_all_of_the_simulated_arm_is_inside_its_outline(fingers):
    """Also the fingers, wide open: nothing of one arm can touch the other outside it."""
    spec, rng = mujoco.MjSpec(), np.random.default_rng(2)
    spec.compiler.degree = False
    add_panda(spec, fingers=fingers)
    model = spec.compile()
    data, q = mujoco.MjData(model), np.array(HARDWARE.home) + 0.2
    data.qpos[:7] = q
    mujoco.mj_kinematics(model, data)
    capsules = outline_at(q, CHAIN, OUTLINE)
    for geom in range(model.ngeom):
        body = model.body(int(model.geom_bodyid[geom])).name
        for point in surface_of(model, data, geom, rng):
            along = capsules[:, 3:6] - capsules[:, :3]
            size = np.maximum((along**2).sum(1), 1e-12)
            share = np.clip(((point - capsules[:, :3]) * along).sum(1) / size, 0.0, 1.0)
            away = np.linalg.norm(capsules[:, :3] + share[:, None] * along - point, axis=1)
            assert (away - capsules[:, 6]).min() < 1e-6, (body, point)


def test_the_separation_is_what_many_points_say_and_its_slopes_are_derivatives():
    rng, looked = np.random.default_rng(3), 0
    for _ in range(200):
        q = random_q(rng)
        others = capsules_from(random_pose(rng, 0.6), outline_at(random_q(rng), CHAIN, OUTLINE))[
            ::4
        ]
        distances, slopes, which = separation(q, CHAIN, OUTLINE, others)
        own, k = outline_at(q, CHAIN, OUTLINE), int(rng.integers(len(OUTLINE)))
        if not np.isfinite(distances[k]):
            assert which[k] == -1 and distance_of(own[k], others) > 0.29
            continue
        assert distances[k] == pytest.approx(distance_of(own[k], others), abs=1e-3)
        if distances[k] < -0.05:
            continue  # where axes nearly cross the slope turns round
        looked += 1
        for j in range(7):
            h = 1e-6 * np.eye(7)[j]
            ahead, behind = (separation(q + way, CHAIN, OUTLINE, others)[0][k] for way in (h, -h))
            assert slopes[k, j] == pytest.approx((ahead - behind) / 2e-6, abs=1e-3)
    assert looked > 40


def test_another_base_keeps_lengths_and_the_way_back_is_the_inverse():
    rng = np.random.default_rng(4)
    pose, capsules = random_pose(rng), outline_at(random_q(rng), CHAIN, OUTLINE)
    there = capsules_from(pose, capsules)
    np.testing.assert_allclose(capsules_from(pose_inverse(pose), there), capsules, atol=1e-12)
    here, then = (
        np.linalg.norm(x[:, None, :3] - x[None, :, 3:6], axis=-1) for x in (capsules, there)
    )
    np.testing.assert_allclose(then, here, atol=1e-12)
    np.testing.assert_array_equal(there[:, 6], capsules[:, 6])


def test_what_is_given_up_is_what_leads_nearer_and_no_more():
    rng = np.random.default_rng(5)
    for _ in range(300):
        error, slope = rng.standard_normal((2, 6))
        least, before = -abs(rng.standard_normal()) * rng.integers(2), error.copy()
        changed = give_up_into(error, slope, least)
        assert slope @ error >= least - 1e-9 and changed == bool(slope @ before < least - 1e-12)
        for part in (slice(0, 3), slice(3, 6)):
            assert np.linalg.norm(error[part]) <= np.linalg.norm(before[part]) + 1e-9
            # along the neighbour nothing is lost
            change = error[part] - before[part]
            np.testing.assert_allclose(np.cross(change, slope[part]), 0.0, atol=1e-9)


def test_two_hands_reach_the_two_ends_of_one_small_object():
    """Fingertip to fingertip, the controlled points 55 mm apart: no nearer do they need to be."""
    hand = np.array([
        [*body.start, *body.end, body.radius_m]
        for body in outline_of(PANDA, (), 7, np.array(HARDWARE.pose_flange_tcp[:3]))
        if body.link == 8
    ])
    assert len(hand) == 4
    for turn in (0.0, 0.5 * np.pi):  # about the object
        facing = [np.cos(turn / 2), np.sin(turn / 2), 0.0, 0.0]
        far = 2 * HARDWARE.pose_flange_tcp[2]
        for apart, allowed in ((0.055, True), (0.045, False)):
            other = capsules_from(np.array([0.0, 0.0, far + apart, *facing]), hand)
            least = min(distance_of(one, other) for one in hand)
            assert (least > STOP_M) == allowed


# ----------------------------------------------------------------------------------------- the law


@pytest.mark.parametrize(
    "compliance", [TASK.compliance, SOFT, STIFF], ids=["task", "soft", "stiff"]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_two_arms_that_are_driven_at_each_other_never_touch(seed, compliance):
    inwards = np.array([0.35, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    homes = [np.array(HARDWARE.home) + side * inwards for side in (1.0, -1.0)]
    pair = TwoArms(FACING, compliance) if seed == 0 else TwoArms(BESIDE, compliance, homes=homes)
    attack = Attack(pair, seed, ("greedy", "reach", "joints"))
    attack.play(2000)
    assert attack.least > 0.0, "MuJoCo says that they touched"
    assert attack.least_seen > FAULT_M and not attack.faults
    assert attack.least_seen < STOP_M + 0.02, "the attack was none"


def test_the_witness_sees_arms_that_touch():
    q = np.array(HARDWARE.home)
    near, far = Witness(np.array([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0])), Witness(BESIDE)
    assert near.least_distance(q, q) < -0.02 and far.least_distance(q, q) == np.inf


@pytest.mark.parametrize("state", ["held", "faulted"])
def test_an_arm_that_stands_is_safe_from_one_that_is_driven_at_it(state):
    pair = TwoArms(FACING)
    still, moving = pair.loops
    if state == "faulted":
        still.command(np.full(7, np.nan), 1.0)
    before, attack = still.state().q, Attack(pair, 0)
    for _ in range(35):
        attack._drive(moving, "greedy", 0, np.zeros(3))
        pair.run(50)
    least = attack.witness.least_distance(*pair.q)
    assert STOP_M - 0.001 < pair.apart < STOP_M + 0.005 and least > 0.0
    assert moving.state().verdict & LimitFlags.NEIGHBOUR and not moving.fault
    np.testing.assert_allclose(still.state().q, before, atol=1e-3)


def together(compliance=TASK.compliance):
    """Two arms that have come as near to each other as they may."""
    pair = TwoArms(FACING, compliance)
    attack = Attack(pair, 0)
    for _ in range(25):
        for loop in pair.loops:
            attack._drive(loop, "greedy", 0, np.zeros(3))
        pair.run(50)
    assert pair.apart < STOP_M + 0.005
    return pair


def test_an_arm_that_is_near_can_always_back_off_and_as_fast_as_ever():
    pair = together()
    back, begun = pair.loops[0], pair.apart
    start = back.state().pose_base_tcp[:3]
    away = back.control.reference.copy()
    away[:3] += (-0.1, 0.0, 0.1)
    for _ in range(20):
        back.command(away, back.t + 0.3, None, 0.05)
        pair.run(50)
    moved_m = np.linalg.norm(back.state().pose_base_tcp[:3] - start)
    assert pair.apart > begun + 0.05 and moved_m > 0.05 and not back.fault


def test_along_a_neighbour_an_arm_is_free():
    pair = together()
    one = pair.loops[0]
    start = one.state().pose_base_tcp[:3]
    for _ in range(20):
        target = one.control.reference.copy()
        target[2] += 0.05  # up, and at the other
        target[0] += 0.02
        one.command(target, one.t + 0.3, None, 0.05)
        pair.run(50)
    assert one.state().pose_base_tcp[2] > start[2] + 0.04
    assert pair.apart > STOP_M - 0.002 and not one.fault


def test_an_arm_holds_while_it_is_not_known_where_its_neighbour_is():
    pair = TwoArms(BESIDE)
    loop = pair.loops[0]
    loop.command(moved(loop, 0.03, 0.0, 0.0), loop.t + 10.0)
    pair.run(100)
    assert not loop.holding
    pair.told = False
    pair.run(300)
    held = loop.state().q
    assert loop.at_rest and not loop.fault and loop.state().verdict & LimitFlags.NEIGHBOUR
    loop.command(moved(loop, 0.03, 0.0, 0.0), loop.t + 1.0)
    assert loop.state().verdict == LimitFlags.REFUSED_NEIGHBOUR
    loop.move_joints(held + 0.1, 0.5, loop.t + 1.0)
    assert loop.state().verdict == LimitFlags.REFUSED_NEIGHBOUR
    pair.run(300)
    np.testing.assert_allclose(loop.state().q, held, atol=1e-3)
    pair.told = True
    pair.run(2)
    loop.command(moved(loop, 0.01, 0.0, 0.0), loop.t + 1.0)
    assert not loop.state().verdict.refused and not loop.holding


def test_a_neighbour_that_is_far_changes_nothing():
    alone, beside = make_loop(), make_loop()
    beside.expect_neighbours(beside.outline_names)
    beside.neighbours[:] = capsules_from(np.array([0.0, 2.0, 0, 0, 0, 0, 1.0]), beside.outline())
    for loop in (alone, beside):
        loop.command(moved(loop, 0.02, -0.01, 0.0), loop.t + 1.0)
        run(loop, 300)
        loop.move_joints(loop.state().q + 0.1, 0.5, loop.t + 1.0)
        run(loop, 300)
    np.testing.assert_array_equal(alone.state().q, beside.state().q)
    np.testing.assert_array_equal(alone.control.tau, beside.control.tau)


def test_a_neighbour_that_is_found_too_near_is_a_fault_with_a_way_out():
    loop = make_loop(**{
        name: getattr(WIDE, name) for name in ("workspace_low", "workspace_high", "workspace_angle")
    })
    hand = loop.outline_names.index("hand")
    row = loop.expect_neighbours(["the other's hand"])[0]
    row[:] = loop.outline()[hand]
    row[:6] += [0.0, 0.4, 0.0] * 2
    run(loop, 5)
    assert not loop.fault
    row[:6] -= [0.0, loop_gap(loop) - 0.006, 0.0] * 2  # it is pushed at this one
    run(loop, 1)
    assert loop.fault == Fault.NEIGHBOUR and loop.holding
    assert "hand was found 6 mm from the other's hand; limit 10 mm" in loop.state().reason
    loop.acknowledge()
    for _ in range(10):  # no nearer
        loop.command(moved(loop, 0.0, 0.02, 0.0), loop.t + 0.3)
        run(loop, 100)
    assert not loop.fault and loop_gap(loop) > 0.005
    for _ in range(30):
        loop.command(moved(loop, 0.0, -0.02, 0.0), loop.t + 0.3)
        run(loop, 100)
    assert not loop.fault and loop_gap(loop) > 0.02 and not loop.excursion.under_way
    row[:6] -= [0.0, loop_gap(loop) - 0.006, 0.0] * 2
    run(loop, 1)
    assert loop.fault == Fault.NEIGHBOUR, "the slack of the excursion was left"


def loop_gap(loop):
    """How far an arm is from its neighbours, by the points of their axes."""
    return min(distance_of(one, loop.neighbours) for one in loop.outline())


def test_a_joint_move_waits_in_front_of_a_neighbour_and_goes_on_when_that_has_gone():
    loop = make_loop(workspace_low=(-1.0, -1.0, 0.0), workspace_high=(1.0, 1.0, 1.2))
    start, sideways = loop.state().q, np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    row = loop.expect_neighbours(["a post"])[0]
    post = np.array([0.5, 0.22, 0.0, 0.5, 0.22, 0.6, 0.03])
    row[:] = post
    for _ in range(40):
        loop.move_joints(start + sideways, 0.5, loop.t + 0.3)
        run(loop, 100)
    assert STOP_M - 0.001 < loop_gap(loop) < STOP_M + 0.005 and not loop.fault
    assert loop.state().verdict & LimitFlags.NEIGHBOUR
    row[:6] += [0.0, 2.0, 0.0] * 2
    for _ in range(60):
        loop.move_joints(start + sideways, 0.5, loop.t + 0.3)
        run(loop, 100)
    np.testing.assert_allclose(loop.state().q, start + sideways, atol=0.01)
