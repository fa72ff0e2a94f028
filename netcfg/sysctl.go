package netcfg

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sysctl is one kernel setting as the node parameters have it. Key is either
// in dots (net.ipv4.conf.bond0.100.rp_filter) or in slashes
// (net/ipv4/conf/bond0.100/rp_filter), as sysctl(8) takes both.
type Sysctl struct{ Key, Value string }

// perLink are the places of the sysctl tree that have a folder for each
// interface (Documentation/networking/ip-sysctl.rst, mpls-sysctl.rst). Below
// it is one more element, so an interface's name may have dots in it.
var perLink = []string{"net/ipv4/conf/", "net/ipv6/conf/", "net/ipv4/neigh/", "net/ipv6/neigh/", "net/mpls/conf/"}

// Check reports what is wrong with the setting that can be known without a
// kernel.
func (s Sysctl) Check() error {
	path := s.path()
	switch {
	case path == "":
		return errors.New("the key is empty")
	case strings.Trim(path, "/.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-:@+") != "":
		return errors.New("a key has letters, digits and _-.:@+/ only")
	case !strings.Contains(path, "/"):
		return errors.New("a key has two parts at least, such as net.ipv4.ip_forward")
	case s.Value == "" || strings.ContainsAny(s.Value, "\n\x00"):
		return errors.New("the value is not one line")
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("a part of the key is empty")
		}
	}
	return nil
}

// path is the setting's file below /proc/sys. Without a slash in the key every
// dot is one, but for those in the name of an interface.
func (s Sysctl) path() string {
	if strings.Contains(s.Key, "/") {
		return strings.TrimPrefix(s.Key, "/")
	}
	path := strings.ReplaceAll(s.Key, ".", "/")
	for _, folder := range perLink {
		rest, ok := strings.CutPrefix(path, folder)
		if !ok {
			continue
		}
		if i := strings.LastIndex(rest, "/"); i >= 0 {
			return folder + strings.ReplaceAll(rest[:i], "/", ".") + rest[i:]
		}
	}
	return path
}

// link is the interface that the setting is of, "" for none.
func (s Sysctl) link() string {
	path := s.path()
	for _, folder := range perLink {
		if rest, ok := strings.CutPrefix(path, folder); ok {
			name, _, _ := strings.Cut(rest, "/")
			if name != "all" && name != "default" {
				return name
			}
		}
	}
	return ""
}

// same reports whether the kernel's text is the value: it writes tabs between
// numbers.
func (s Sysctl) same(have string) bool {
	return slices.Equal(strings.Fields(have), strings.Fields(s.Value))
}

// resets reports whether writing the setting resets others, so that it must
// come first: forwarding makes a host a router, or the reverse, and gives
// every link's settings the defaults of one (ip-sysctl.rst, ip_forward).
func (s Sysctl) resets() bool {
	path := s.path()
	return path == "net/ipv4/ip_forward" ||
		strings.HasSuffix(path, "/conf/all/forwarding") || strings.HasSuffix(path, "/conf/default/forwarding")
}

// withSysctls is the document with the kernel settings to hold beside it, in
// the order in which they are to be written.
func (c *Config) withSysctls(settings []Sysctl) *Config {
	with := *c
	with.sysctls = slices.Clone(settings)
	slices.SortStableFunc(with.sysctls, func(a, b Sysctl) int {
		switch {
		case a.resets() && !b.resets():
			return -1
		case b.resets() && !a.resets():
			return 1
		}
		return 0
	})
	return &with
}

// conflict says that the document itself sets what the setting is for, "" if
// it does not. Two wishes for one value would never converge.
func (c *Config) conflict(s Sysctl) string {
	name := s.link()
	setting := s.path()[strings.LastIndex(s.path(), "/")+1:]
	if name == "" || !strings.HasPrefix(s.path(), "net/ipv6/conf/") {
		return ""
	}
	for i := range c.links {
		l := &c.links[i]
		if l.name != name {
			continue
		}
		key := map[string]string{"addr_gen_mode": "link-local", "disable_ipv6": "link-local"}[setting]
		switch {
		case setting == "accept_ra" && l.acceptRA != nil:
			key = "accept-ra"
		case setting == "use_tempaddr" && l.privacy != nil:
			key = "ipv6-privacy"
		case setting == "mtu" && l.ipv6MTU != 0:
			key = "ipv6-mtu"
		}
		if key != "" {
			return "the network document sets it: " + l.id + ", " + key
		}
	}
	return ""
}

// module is the kernel module that brings the setting, or that which its value
// names; "" for none. The kernel would ask modprobe for it, which no node has.
func (s Sysctl) module() string {
	path := s.path()
	switch path {
	case "net/ipv4/tcp_congestion_control":
		return "tcp_" + s.Value // net/ipv4/tcp_cong.c, request_module("tcp_%s")
	case "net/core/default_qdisc":
		return "sch_" + s.Value // net/sched/sch_api.c, request_module("sch_%s")
	}
	for _, m := range []struct{ folder, name string }{
		{"net/bridge/", "br_netfilter"}, {"net/netfilter/nf_conntrack", "nf_conntrack"}, {"net/mpls/", "mpls_router"},
	} {
		if strings.HasPrefix(path, m.folder) {
			return m.name
		}
	}
	return ""
}

// refusal is a setting that the kernel did not take.
type refusal struct {
	reason string
	retry  dadRetry
}

// refuse remembers it, so that the plan goes on without it until its next try.
func (r *Reconciler) refuse(op Op, err error, now time.Time) {
	key := op.Settings[0].Name
	old := r.refused[key]
	if old == nil {
		old = &refusal{retry: dadRetry{pause: dadRetryFirst / 2}}
		r.refused[key] = old
	}
	reason := err.Error()
	reason = strings.TrimPrefix(reason, op.String()+": ")
	old.reason = fmt.Sprintf("set %s: %s", op.Settings[0].Value, reason)
	old.retry.pause = min(2*old.retry.pause, dadRetryMost)
	old.retry.next = now.Add(old.retry.pause)
}

// holdRefused tells the plan of the refused settings whose next try is not due.
func (r *Reconciler) holdRefused(have *State, now time.Time) {
	have.Refused = map[string]string{}
	for key, refused := range r.refused {
		if now.Before(refused.retry.next) {
			have.Refused[key] = refused.reason
		}
	}
}
