package service

import (
	"maps"
	"slices"
	"strings"

	"reveille/netcfg"
)

// maxCircles is how many circles are told of; who has more of them has made
// one mistake many times.
const maxCircles = 10

// checkNeeds reports needs that nobody defines, and those that go round in a
// circle, each circle once. at has the place of each service's needs.
func checkNeeds(all []Service, at map[string]netcfg.Value, other Elsewhere) {
	by := map[string]*Service{}
	for i := range all {
		by[all[i].Name] = &all[i]
	}
	for _, s := range all {
		for _, need := range at[s.Name].Sequence() {
			n := need.Scalar()
			if by[n] == nil && slices.Contains(s.Needs, n) && !other.More && !slices.Contains(other.Services, n) {
				names := slices.Concat(other.Services, slices.Sorted(maps.Keys(by)))
				need.Invalid("is a service that nobody defines%s", netcfg.Suggest(n, names))
			}
		}
	}
	told, circles := map[string]bool{}, 0
	for _, s := range knotted(all, by) {
		if told[s.Name] || circles == maxCircles {
			continue
		}
		chain := circle(s, by)
		if chain == nil {
			continue // between two circles
		}
		circles++
		at[s.Name].Invalid("goes round in a circle: %s", strings.Join(chain, " needs "))
		for _, name := range chain {
			told[name] = true
		}
	}
}

// knotted is what is left when all that could be started one after the other
// has been: services in a circle, or in need of one.
func knotted(all []Service, by map[string]*Service) []*Service {
	left := map[string]int{} // needs that have not been started
	neededBy := map[string][]string{}
	var free []string
	for _, s := range all {
		for _, need := range s.Needs {
			if by[need] != nil {
				left[s.Name]++
				neededBy[need] = append(neededBy[need], s.Name)
			}
		}
		if left[s.Name] == 0 {
			free = append(free, s.Name)
		}
	}
	for len(free) > 0 {
		name := free[0]
		free = free[1:]
		for _, waiting := range neededBy[name] {
			if left[waiting]--; left[waiting] == 0 {
				free = append(free, waiting)
			}
		}
	}
	var out []*Service
	for i := range all {
		if left[all[i].Name] > 0 {
			out = append(out, &all[i])
		}
	}
	return out
}

// circle is the shortest way from a service through its needs back to it; nil
// when there is none.
func circle(s *Service, by map[string]*Service) []string {
	from := map[string]string{}
	for queue := []string{s.Name}; len(queue) > 0; queue = queue[1:] {
		at := by[queue[0]]
		if at == nil {
			continue
		}
		for _, need := range at.Needs {
			if need == s.Name {
				return append(way(from, at.Name, s.Name), s.Name)
			}
			if _, seen := from[need]; !seen {
				from[need] = at.Name
				queue = append(queue, need)
			}
		}
	}
	return nil
}

// way is the chain from start to name.
func way(from map[string]string, name, start string) []string {
	chain := []string{name}
	for name != start {
		name = from[name]
		chain = append(chain, name)
	}
	slices.Reverse(chain)
	return chain
}
