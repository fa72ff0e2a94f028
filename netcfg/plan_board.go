package netcfg

import (
	"net/netip"
	"slices"
)

// board is the planner's own copy of the state. The plain effects of each
// planned operation are played on it, so that later operations see earlier
// ones. What is asked for every link, address or route of a document is a map:
// with a thousand of each, scanning lists takes seconds.
type board struct {
	links   []*LinkState // by index, then what the plan creates
	byIndex map[int]*LinkState
	byName  map[string]*LinkState

	addressesOf map[int][]AddressState // by link, in the kernel's order
	holders     map[netip.Addr][]int   // the links that have the address or had it

	routes   map[routeKey][]RouteState
	routesOf map[int][]routeKey // see keysOf
}

func newBoard(have State) board {
	b := board{
		byIndex:     make(map[int]*LinkState, len(have.Links)),
		byName:      make(map[string]*LinkState, len(have.Links)),
		addressesOf: make(map[int][]AddressState, len(have.Links)),
		holders:     make(map[netip.Addr][]int, len(have.Addresses)),
		routes:      make(map[routeKey][]RouteState, len(have.Routes)),
	}
	for _, l := range have.Links {
		b.addLink(l)
	}
	for _, a := range have.Addresses {
		b.addAddress(a)
	}
	// Most keys have one route. It stays in one list, which is our own because
	// what is left of a shortened list is cleared.
	for routes := slices.Clone(have.Routes); len(routes) > 0; routes = routes[1:] {
		if key := routes[0].key(); b.routes[key] == nil {
			b.routes[key] = routes[:1:1]
		} else {
			b.routes[key] = append(b.routes[key], routes[0])
		}
	}
	return b
}

func (b *board) addLink(l LinkState) *LinkState {
	b.links = append(b.links, &l)
	b.byIndex[l.Index], b.byName[l.Name] = &l, &l
	return &l
}

func (b *board) removeLink(d *LinkState) {
	b.links = slices.DeleteFunc(b.links, func(l *LinkState) bool { return l == d })
	delete(b.byIndex, d.Index)
	delete(b.byName, d.Name)
}

func (b *board) renameLink(d *LinkState, name string) {
	delete(b.byName, d.Name)
	d.Name = name
	b.byName[name] = d
}

// link is the interface with that index, nil if there is none.
func (b *board) link(index int) *LinkState { return b.byIndex[index] }

// named is the interface with that name, nil if there is none.
func (b *board) named(name string) *LinkState { return b.byName[name] }

// ports is the interfaces whose master d is.
func (b *board) portsOf(d *LinkState) []*LinkState {
	var out []*LinkState
	for _, l := range b.links {
		if l.Master == d.Index {
			out = append(out, l)
		}
	}
	return out
}

func (b *board) addAddress(a AddressState) {
	b.addressesOf[a.Link] = append(b.addressesOf[a.Link], a)
	ip := a.Prefix.Addr()
	if !slices.Contains(b.holders[ip], a.Link) {
		b.holders[ip] = append(b.holders[ip], a.Link)
	}
}

// dropAddresses takes those of a link that gone says yes to off the board.
func (b *board) dropAddresses(index int, gone func(AddressState) bool) {
	if kept := slices.DeleteFunc(b.addressesOf[index], gone); len(kept) > 0 {
		b.addressesOf[index] = kept
	} else {
		delete(b.addressesOf, index)
	}
}

// has reports whether the machine has an address with that IP which yes says
// yes to.
func (b *board) has(ip netip.Addr, yes func(AddressState) bool) bool {
	for _, index := range b.holders[ip] {
		if slices.ContainsFunc(b.addressesOf[index], func(a AddressState) bool {
			return a.Prefix.Addr() == ip && yes(a)
		}) {
			return true
		}
	}
	return false
}

func (b *board) addRoute(r RouteState) {
	key := r.key()
	b.routes[key] = append(b.routes[key], r)
	if b.routesOf != nil {
		b.routesOf[r.Link] = append(b.routesOf[r.Link], key)
	}
}

// keysOf is the keys of a link's routes, past ones included. A plan that takes
// no link down hardly asks, so the list is made when somebody does.
func (b *board) keysOf(index int) []routeKey {
	if b.routesOf == nil {
		b.routesOf = make(map[int][]routeKey, len(b.links))
		for key, routes := range b.routes {
			for _, r := range routes {
				b.routesOf[r.Link] = append(b.routesOf[r.Link], key)
			}
		}
	}
	return b.routesOf[index]
}

// dropRoutes takes the routes of a link off the board.
func (b *board) dropRoutes(index int) {
	for _, key := range b.keysOf(index) {
		b.routes[key] = slices.DeleteFunc(b.routes[key], func(r RouteState) bool { return r.Link == index })
	}
	delete(b.routesOf, index)
}
