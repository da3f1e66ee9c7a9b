"""Domain randomisation of what cameras see: light, colours, textures and camera poses, drawn anew
for each episode.

Only pictures change, in the model that a camera draws from. The draw follows from the seed of the
world's last reset, which the `world` channel carries: training, evaluation and a repeated episode
see the same.
"""

from dataclasses import dataclass, fields

import mujoco
import numpy as np

from robot_rl.geometry import quat_from_rotvec, quat_multiply
from robot_rl.types import Array, ConfigError

SURFACES = ("table", "peg", "socket")
"""What is dyed and textured: the geoms of these names, also with a dash and a number behind."""

ALIASES = {"tool": "peg", "cube": "peg", "plug": "peg", "object": "socket", "receptacle": "socket"}
"""Other names of a surface, for scenes without a peg and a socket."""

TEXELS = 64
TABLE_TILE_M = 0.1
"""A texture is 64 x 64 texels: repeated every 10 cm on the table, once on each face of the other
surfaces.
"""

MOST = {
    "light_m": 1.0,  # the lights hang 1.4 m above the table
    "brightness": 1.0,
    "tint": 1.0,
    "colour": 1.0,
    "texture": 1.0,
    "camera_m": 0.05,  # further, the wrist's camera is inside the hand
    "camera_rad": 0.35,
}


@dataclass(frozen=True)
class Looks:
    """How far the looks of a scene change from episode to episode: half-widths of uniform ranges.
    Zero: not at all.

    `light_m` [m] moves each lamp along each axis, and it goes on shining at the same spot of the
    table; `brightness` is a share of each lamp's own, `tint` a share of the red, green and blue of
    all of them; `colour` is added to the red, green and blue of each surface (full scale 1).
    `texture` is the largest contrast of the pattern that darkens a surface: 0 is plain, 1 goes down
    to black. `camera_m` [m] and `camera_rad` [rad] shift each camera along, and turn it about, its
    own axes. Raises ConfigError for a value out of its range.
    """

    light_m: float = 0.0
    brightness: float = 0.0
    tint: float = 0.0
    colour: float = 0.0
    texture: float = 0.0
    camera_m: float = 0.0
    camera_rad: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0.0 <= value <= MOST[field.name]:
                raise ConfigError(
                    f"looks: {field.name} is {value}; allowed: 0 to {MOST[field.name]}"
                )


def add_textures(spec: mujoco.MjSpec, looks: Looks) -> None:
    """Give each surface of a model a texture to draw on. Without a range of textures the model
    stays as it is.
    """
    if looks.texture == 0.0:
        return
    for name in SURFACES:
        flat, cube = name == "table", mujoco.mjtTexture.mjTEXTURE_CUBE
        kind = mujoco.mjtTexture.mjTEXTURE_2D if flat else cube
        texture = spec.add_texture(
            name=name, type=kind, builtin=mujoco.mjtBuiltin.mjBUILTIN_FLAT, rgb1=[1, 1, 1]
        )
        texture.width, texture.height = TEXELS, TEXELS * (1 if flat else 6)
        material = spec.add_material(name=name, texuniform=flat)
        material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
        if flat:
            material.texrepeat = [1.0 / TABLE_TILE_M] * 2
    for geom in spec.geoms:
        if surface_of(geom.name) in SURFACES:
            geom.material = surface_of(geom.name)


def surface_of(geom_name: str) -> str:
    """`socket-2` belongs to the surface `socket`."""
    name = geom_name.partition("-")[0]
    return ALIASES.get(name, name)


class Appearance:
    """The looks of one model, changed in place for one episode after another."""

    def __init__(self, model: mujoco.MjModel, looks: Looks):
        self._model, self._looks = model, looks
        self._light_pos, self._light_dir = model.light_pos.copy(), model.light_dir.copy()
        self._diffuse = model.light_diffuse.copy()
        head = model.vis.headlight
        self._head = np.stack([head.ambient, head.diffuse])
        self._rgba = model.geom_rgba.copy()
        self._cam_pos, self._cam_quat = model.cam_pos.copy(), model.cam_quat.copy()
        names = [surface_of(model.geom(i).name) for i in range(model.ngeom)]
        self._geoms = [
            [i for i, name in enumerate(names) if name == surface] for surface in SURFACES
        ]
        textures = range(model.ntex) if looks.texture else ()
        self.textures = tuple(i for i in textures if model.texture(i).name in SURFACES)
        """Which textures a `randomize` draws anew: a renderer has to upload them."""

    def randomize(self, seed: int) -> None:
        """Draw the looks of the episode with this seed. A range of zero changes no bit and no other
        draw.
        """
        rng = np.random.default_rng([seed, 1])  # not the numbers that place the socket
        self._light(rng)
        self._dye(rng)
        self._move_cameras(rng)
        self._texture(rng)

    def _light(self, rng: np.random.Generator) -> None:
        model, looks, lamps = self._model, self._looks, self._model.nlight
        shift = looks.light_m * rng.uniform(-1.0, 1.0, (lamps, 3))
        # along the beam to the table, z = 0
        distance = self._light_pos[:, 2:] / -self._light_dir[:, 2:]
        model.light_pos[:] = self._light_pos + shift
        model.light_dir[:] = self._light_dir - shift / distance
        gain = 1.0 + looks.brightness * rng.uniform(-1.0, 1.0, (lamps + 1, 1))
        gain = gain * (1.0 + looks.tint * rng.uniform(-1.0, 1.0, 3))
        model.light_diffuse[:] = self._diffuse * gain[:-1]
        model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = self._head * gain[-1]

    def _dye(self, rng: np.random.Generator) -> None:
        for geoms in self._geoms:
            colours = self._rgba[geoms, :3] + self._looks.colour * rng.uniform(-1.0, 1.0, 3)
            self._model.geom_rgba[geoms, :3] = np.clip(colours, 0.0, 1.0)

    def _move_cameras(self, rng: np.random.Generator) -> None:
        for camera in range(self._model.ncam):
            shift, turn = rng.uniform(-1.0, 1.0, (2, 3)) * [
                [self._looks.camera_m],
                [self._looks.camera_rad],
            ]
            self._model.cam_pos[camera] = self._cam_pos[camera] + shift
            quat = self._cam_quat[camera][[1, 2, 3, 0]]
            self._model.cam_quat[camera] = quat_multiply(quat, quat_from_rotvec(turn))[[3, 0, 1, 2]]

    def _texture(self, rng: np.random.Generator) -> None:
        model = self._model
        for texture in self.textures:
            levels = 255.0 * (1.0 - rng.uniform(0.0, self._looks.texture) * draw_pattern(rng))
            texels = np.tile(levels.astype(np.uint8), (model.tex_height[texture] // TEXELS, 1))
            texels = np.repeat(texels[:, :, None], model.tex_nchannel[texture], axis=2).ravel()
            model.tex_data[model.tex_adr[texture] :][: texels.size] = texels


def draw_pattern(rng: np.random.Generator) -> Array:
    """A pattern `(TEXELS, TEXELS)` in [0, 1] that tiles: some plane waves, from blurred to sharp.

    One strong wave makes stripes, two make checks, more of them make blots.
    """
    place = np.arange(TEXELS) / TEXELS
    waves = np.zeros((TEXELS, TEXELS))
    for strength in rng.exponential(1.0, 4):
        down, across = rng.integers(-5, 6, 2)
        waves += strength * np.cos(
            2.0 * np.pi * (down * place[:, None] + across * place + rng.uniform())
        )
    result: Array = 1.0 / (1.0 + np.exp(-rng.uniform(0.5, 8.0) * waves))
    return result
