package images

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"reveille/boot/modules"
)

// loadedModule is a module chosen for an image.
type loadedModule struct {
	modules.Module
	content []byte
}

// choose reads the modules of a set and everything they depend on, sorted by
// name. missing are names of the set that this kernel does not have.
func (k Kernel) choose(set Set) (chosen []loadedModule, missing []string, err error) {
	builtin := map[string]bool{}
	for _, b := range k.builtin {
		builtin[b] = true
	}
	queue, missing, err := k.pick(set, builtin)
	if err != nil {
		return nil, nil, err
	}
	have := map[string]loadedModule{}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if _, ok := have[name]; ok || builtin[name] {
			continue
		}
		m, err := k.load(name)
		if err != nil {
			return nil, nil, err
		}
		have[name] = m
		queue = append(queue, m.Depends...)
		for _, s := range m.Soft {
			if k.files[s] != "" {
				queue = append(queue, s)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		chosen = append(chosen, have[name])
	}
	return chosen, missing, nil
}

// pick turns a set into module names of this kernel.
func (k Kernel) pick(set Set, builtin map[string]bool) (names, missing []string, err error) {
	for _, n := range set.Must {
		n = modules.CanonicalName(n)
		if k.files[n] == "" && !builtin[n] {
			return nil, nil, fmt.Errorf("choose modules: kernel %s has no %s", k.Release, n)
		}
		names = append(names, n)
	}
	for _, n := range set.May {
		n = modules.CanonicalName(n)
		if k.files[n] == "" && !builtin[n] {
			missing = append(missing, n)
			continue
		}
		names = append(names, n)
	}
	for _, dir := range set.Dirs {
		for name, file := range k.files {
			if strings.HasPrefix(file, "kernel/"+dir+"/") {
				names = append(names, name)
			}
		}
	}
	return names, missing, nil
}

func (k Kernel) load(name string) (loadedModule, error) {
	file := k.files[name]
	if file == "" {
		return loadedModule{}, fmt.Errorf("read module %s: kernel %s has none", name, k.Release)
	}
	content, err := readModule(filepath.Join(k.dir, file))
	if err != nil {
		return loadedModule{}, fmt.Errorf("read module %s: %w", name, err)
	}
	m, err := ParseModinfo(content)
	if err != nil {
		return loadedModule{}, fmt.Errorf("read module %s: %w", name, err)
	}
	m.Name = name
	m.Path = file
	if compression := path.Ext(file); compression != ".ko" {
		m.Path = strings.TrimSuffix(file, compression)
	}
	return loadedModule{m, content}, nil
}
