package netcfg

import (
	"maps"
	"strconv"

	"golang.org/x/sys/unix"
)

// addPort is br_add_if: a port may be up, keeps its MTU, and lowers that of a
// bridge whose own nobody set.
func (f *fake) addPort(l, m *LinkState) error {
	switch {
	case l.Kind == "bridge" || l.Name == "lo":
		return unix.ELOOP
	case f.above(l, m):
		return unix.EBUSY // as for a bond
	}
	if old := f.state.link(l.Master); old != nil {
		f.release(l)
	}
	l.Master, l.BridgePort = m.Index, maps.Clone(newBridgePort)
	l.BridgePort["path_cost"] = "2" // veth says 10 Gbit/s
	return nil
}

// bridgeOption refuses what is out of range, as br_changelink does.
func (f *fake) bridgeOption(l *LinkState, s Setting) error {
	n, _ := strconv.Atoi(s.Value)
	within := func(lo, hi int) bool { return lo <= n && n <= hi }
	stp := l.Bridge["stp_state"] != "0"
	if s.Name == "hello_time" && !within(100, 1000) || s.Name == "max_age" && !within(600, 4000) ||
		s.Name == "forward_delay" && stp && !within(200, 3000) {
		return unix.ERANGE
	}
	l.Bridge[s.Name] = s.Value
	if delay, _ := strconv.Atoi(l.Bridge["forward_delay"]); s.Name == "stp_state" && n != 0 && delay < 200 {
		l.Bridge["forward_delay"] = "200" // br_stp_start
	}
	return nil
}

func (f *fake) portOption(l *LinkState, s Setting) error {
	n, _ := strconv.Atoi(s.Value)
	if s.Name == "path_cost" && (n < 1 || n > 65535) || s.Name == "priority" && n > 63 {
		return unix.ERANGE
	}
	l.BridgePort[s.Name] = s.Value
	return nil
}
