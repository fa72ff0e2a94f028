package netcfg

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// maxAdvertised bounds what one link's routers can make us remember: RFC 8106
// asks for three servers at least, and nobody reads more than maxServers.
const maxAdvertised = 8

// advertisements is the name servers and domains that routers told, each for
// as long as its lifetime. Routes and addresses are the kernel's business.
type advertisements struct {
	mu    sync.Mutex
	heard []heard // in the order in which they were first heard
}

// heard is one server or one domain.
type heard struct {
	link   int // index
	server netip.Addr
	domain string
	until  time.Time // zero for ever
}

// learn takes an option in. What is known is only prolonged, shortened or
// taken back, so the order stays.
func (t *advertisements) learn(a advertised, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range a.servers {
		t.put(heard{link: a.link, server: s}, a.lifetime, now)
	}
	for _, d := range a.domains {
		t.put(heard{link: a.link, domain: d}, a.lifetime, now)
	}
}

func (t *advertisements) put(h heard, lifetime time.Duration, now time.Time) {
	if lifetime != endless {
		h.until = now.Add(lifetime)
	}
	same := func(o heard) bool { return o.link == h.link && o.server == h.server && o.domain == h.domain }
	i := slices.IndexFunc(t.heard, same)
	of := 0
	for _, o := range t.heard {
		if o.link == h.link && o.server.IsValid() == h.server.IsValid() {
			of++
		}
	}
	switch {
	case lifetime == 0:
		t.heard = slices.DeleteFunc(t.heard, same)
	case i >= 0:
		t.heard[i] = h
	case of < maxAdvertised:
		t.heard = append(t.heard, h)
	}
}

// known is what holds now, by link, without what ended and without links that
// are no more.
func (t *advertisements) known(now time.Time, have State) map[int]dns {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.heard) == 0 {
		return nil
	}
	names := map[int]string{}
	for _, l := range have.Links {
		names[l.Index] = l.Name
	}
	t.heard = slices.DeleteFunc(t.heard, func(h heard) bool {
		return names[h.link] == "" || !h.until.IsZero() && !now.Before(h.until)
	})
	out := map[int]dns{}
	for _, h := range t.heard {
		d := out[h.link]
		switch {
		case h.domain != "":
			d.search = append(d.search, h.domain)
		case h.server.IsLinkLocalUnicast():
			d.servers = append(d.servers, h.server.WithZone(names[h.link]))
		default:
			d.servers = append(d.servers, h.server)
		}
		out[h.link] = d
	}
	return out
}

// next is in how long the first of them ends.
func (t *advertisements) next(now time.Time) (left time.Duration, some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.heard {
		if in := max(h.until.Sub(now), 0); !h.until.IsZero() && (!some || in < left) {
			left, some = in, true
		}
	}
	return left, some
}

// withAdvertised is the wish together with the name servers of router
// advertisements, for the links that want them. They come after the document's
// and a lease's.
func (c *Config) withAdvertised(known map[int]dns, have State) *Config {
	if len(known) == 0 {
		return c
	}
	p := newPlanner(c, have)
	p.bindNICs()
	out := *c
	out.links = slices.Clone(c.links)
	for i := range out.links {
		l := &out.links[i]
		for _, index := range p.indices(l) {
			add := known[index]
			if l.takesServers() {
				l.dns.servers = append(slices.Clip(l.dns.servers), add.servers...)
			}
			if l.takesDomains() {
				l.dns.search = append(slices.Clip(l.dns.search), add.search...)
			}
		}
	}
	return &out
}

// indices is the interfaces that the wanted link is now.
func (p *planner) indices(l *link) []int {
	if l.kind == kindNIC {
		return p.nics[l.id]
	}
	if d := p.wanted(l.id); d != nil {
		return []int{d.Index}
	}
	return nil
}

func (l *link) refusesRA() bool { return l.acceptRA != nil && !*l.acceptRA }

func (l *link) takesServers() bool { return !l.refusesRA() && l.ra.useDNS }

func (l *link) takesDomains() bool { return !l.refusesRA() && l.ra.useDomains }

// solicit asks the routers of each link that listens to them, once since the
// watch began, as soon as the link can speak.
func (r *Reconciler) solicit(net network, want *Config, have State) {
	fresh := r.speaking(have)
	link, ok := net.(prober)
	if !ok || len(fresh) == 0 {
		return
	}
	p := newPlanner(want, have)
	p.bindNICs()
	for i := range want.links {
		l := &want.links[i]
		for _, index := range p.indices(l) {
			d := p.link(index)
			if !fresh[index] || l.refusesRA() || d.AcceptRA == acceptRAOff || d.Master != 0 {
				continue
			}
			if err := link.solicitRouters(index); err != nil {
				r.log.Debug(d.Name + ": " + err.Error() + ", going on: they advertise by themselves every few minutes")
			}
		}
	}
}

// speaking is the links that have a link-local address they can use now and
// did not before.
func (r *Reconciler) speaking(have State) map[int]bool {
	fresh := map[int]bool{}
	for _, a := range have.Addresses {
		ip := a.Prefix.Addr()
		if ip.Is6() && ip.IsLinkLocalUnicast() && !a.Tentative && !a.DADFailed && !r.solicited[a.Link] {
			r.solicited[a.Link], fresh[a.Link] = true, true
		}
	}
	return fresh
}

// forgetSolicited is for a new watch, which has heard no advertisement yet.
func (r *Reconciler) forgetSolicited() {
	r.turn.Lock()
	defer r.turn.Unlock()
	clear(r.solicited)
}
