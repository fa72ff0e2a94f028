package netcfg

import (
	"net/netip"
	"strings"
	"sync"
)

// Host is one machine of the hosts file.
type Host struct {
	Addr  netip.Addr
	Names []string // the first is its canonical one
}

// localHosts are what programs expect of any machine.
const localHosts = `# Written by reveille from its cluster's directory; other changes are lost.
127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
`

// hosts is the wanted hosts file. It is set from other goroutines than the one
// that converges.
type hosts struct {
	mu      sync.Mutex
	text    string // "" until somebody set it
	changed chan struct{}
}

// SetHosts makes the hosts file (hosts(5)) these machines beside localhost, in
// their order. The file is written by the next convergence, which Run begins
// at once; entries that could not stand in it are left out.
func (r *Reconciler) SetHosts(list []Host) {
	text := hostsFile(list)
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	if text == r.hosts.text {
		return
	}
	r.hosts.text = text
	select {
	case r.hosts.changed <- struct{}{}:
	default: // it will be seen with the one before
	}
}

func (h *hosts) wanted() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text
}

func hostsFile(list []Host) string {
	var b strings.Builder
	b.WriteString(localHosts)
	for _, h := range list {
		var names []string
		for _, name := range h.Names {
			if isHostName(name) {
				names = append(names, name)
			}
		}
		if h.Addr.IsValid() && h.Addr.Zone() == "" && len(names) > 0 {
			b.WriteString(h.Addr.String() + " " + strings.Join(names, " ") + "\n")
		}
	}
	return b.String()
}

func isHostName(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || !isLabel([]byte(label)) {
			return false
		}
	}
	return len(name) <= 253
}

// withHosts is the wish together with the hosts file, "" for none.
func (c *Config) withHosts(text string) *Config {
	if text == c.hosts {
		return c
	}
	with := *c
	with.hosts = text
	return &with
}

// hostsFile plans the file when it is not as wanted.
func (p *planner) hostsFile() {
	if p.have.Hosts == nil || p.want.hosts == "" || *p.have.Hosts == p.want.hosts {
		return
	}
	p.do(Op{Verb: OpHosts, File: p.want.hosts})
}
