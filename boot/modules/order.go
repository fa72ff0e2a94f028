package modules

import "fmt"

// Order returns name and everything it needs, in the order to load them:
// dependencies first, name last; what is built in is left out. A soft
// dependency that is missing is left out too, a hard one is an error.
func (ix *Index) Order(name string) ([]Module, error) {
	w := walk{index: ix, visits: map[string]visit{}}
	if err := w.need(name, ""); err != nil {
		return nil, err
	}
	return w.order, nil
}

type visit int

const (
	begun visit = iota + 1 // its dependencies are being visited
	done
)

// walk is a depth-first walk along dependencies.
type walk struct {
	index  *Index
	visits map[string]visit
	order  []Module
}

// need visits a module on behalf of another; by is empty for the first.
func (w *walk) need(name, by string) error {
	name = CanonicalName(name)
	m, known := w.index.modules[name]
	switch {
	case w.index.builtin[name] || w.visits[name] == done:
		return nil
	case w.visits[name] == begun:
		return fmt.Errorf("module %s: depends on itself through %s", name, by)
	case !known && by == "":
		return fmt.Errorf("module %s: %w", name, ErrUnknown)
	case !known:
		return fmt.Errorf("module %s, needed by %s: %w", name, by, ErrUnknown)
	}
	w.visits[name] = begun
	for _, d := range m.Depends {
		if err := w.need(d, name); err != nil {
			delete(w.visits, name) // another may still come here by a soft dependency
			return err
		}
	}
	for _, d := range m.Soft {
		// These may form loops and may be absent: whatever is wrong with one must
		// not keep its user from loading.
		if w.visits[CanonicalName(d)] == 0 {
			_ = w.need(d, name)
		}
	}
	w.visits[name] = done
	w.order = append(w.order, m)
	return nil
}
