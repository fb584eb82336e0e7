"""Names that people give to components, kept in the run folder."""

from threading import Lock

from hitnet.files import read_json, write_json
from hitnet.runs.run import Run

LONGEST = 40

Names = dict[str, dict[str, str]]


class ComponentNames:
    """RUN/component-names.json: {class index: {component: name}}; a component has a different meaning in each class."""

    def __init__(self, run: Run, classes: int, dims: int) -> None:
        self.path, self.classes, self.dims = run.component_names_file, classes, dims
        self.lock = Lock()

    def read(self) -> Names:
        """The names in the file; invalid classes, components and names are left out."""
        if not self.path.is_file():
            return {}
        content = read_json(self.path)
        kept: Names = {}
        for index in map(str, range(self.classes)):
            of_class = content.get(index)
            if isinstance(of_class, dict):
                fitting = {
                    str(component): of_class[str(component)]
                    for component in range(self.dims)
                    if is_name(of_class.get(str(component)))
                }
                if fitting:
                    kept[index] = fitting
        return kept

    def write(self, class_index: int, component: int, name: str) -> Names:
        """Name one component, or remove its name with an empty one; returns all names."""
        if not 0 <= class_index < self.classes:
            raise ValueError(f"class must lie in 0..{self.classes - 1}, got {class_index}")
        if not 0 <= component < self.dims:
            raise ValueError(f"component must lie in 0..{self.dims - 1}, got {component}")
        name = name.strip()
        if name and not is_name(name):
            raise ValueError(f"a name has at most {LONGEST} printable characters in one line, got {name[:80]!r}")
        with self.lock:
            names = self.read()
            of_class = names.setdefault(str(class_index), {})
            of_class.pop(str(component), None)
            if name:
                of_class[str(component)] = name
            names = {index: names[index] for index in sorted(names, key=int) if names[index]}
            write_json(self.path, names)
        return names


def is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= LONGEST and name.isprintable() and not name.isspace()
