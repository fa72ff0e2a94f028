package netcfg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The contract between the planner and a kernel: the same start states and the
// same refusals on the fake, which runs everywhere, and on the real kernel,
// where its modules exist (kernel_linux_test.go).

// lab is a network to experiment with.
type lab interface {
	network
	// AddNIC plugs in a NIC that has carrier when it is up.
	AddNIC(name, mac string) error
	// happen does what no operation of ours does; see event.
	happen(t testing.TB, what event, link string)
	// events says when to look again; nil for a lab where nothing moves.
	events(testing.TB) <-chan struct{}
}

// step is an operation that somebody else did before us, and its outcome, or
// an event.
type step struct {
	op    Op
	errs  error
	event event
	link  string
}

// event is what happens to a link otherwise than by an operation of ours.
type event string

const (
	altName     event = "gets the alternative name bond0"
	unplug      event = "loses its carrier"
	move        event = "comes from another network namespace"
	checked     event = "has its addresses checked for duplicates"
	optimistic  event = "uses addresses before they are checked"
	keepOnDown  event = "keeps its addresses when it is down"
	allForbidRA event = "sees accept_ra switched off for all"
	routeOfRA   event = "has a default route of a router advertisement"
	halfWayShut event = "gets two changes in one message, the second of which is refused"
)

func happens(what event, link string) []step { return []step{{event: what, link: link}} }

type scenario struct {
	name  string
	nics  int // eth0, eth1, ... with MACs 02:00:00:00:00:00, ...:01
	start []step
	want  string // netplan, without the wrapper and the version
	shows []string
	never []Verb // what must not be done on the way
	waits string // the start of what is still waited for, "" for anything
}

func ok(ops ...Op) []step {
	var out []step
	for _, op := range ops {
		out = append(out, step{op: op})
	}
	return out
}

func refused(err error, op Op) []step { return []step{{op: op, errs: err}} }

func steps(lists ...[]step) []step { return slices.Concat(lists...) }

func mk(kind, name string, settings ...string) Op {
	op := Op{Verb: OpCreate, Kind: kind, Link: name}
	for i := 0; i < len(settings); i += 2 {
		op.Settings = append(op.Settings, Setting{settings[i], settings[i+1]})
	}
	return op
}

func mkVLAN(name, parent string, id int) Op {
	return Op{Verb: OpCreate, Kind: "vlan", Link: name, Other: parent, Settings: []Setting{{"id", fmt.Sprint(id)}}}
}

func up(link string) Op              { return Op{Verb: OpUp, Link: link} }
func downOp(link string) Op          { return Op{Verb: OpDown, Link: link} }
func enslave(link, master string) Op { return Op{Verb: OpEnslave, Link: link, Other: master} }
func set(link, name, value string) Op {
	op := Op{Verb: OpSet, Link: link, Settings: []Setting{{name, value}}}
	if bondOptionNamed(name) != nil {
		op.Kind = "bond"
	}
	return op
}
func rename(link, name string) Op { return Op{Verb: OpRename, Link: link, Other: name} }
func addr(link, prefix string) Op {
	return Op{Verb: OpAddAddress, Link: link, Address: netip.MustParsePrefix(prefix)}
}
func route4(link, to, via string, metric int) Op {
	r := Route{To: netip.MustParsePrefix(to), Table: mainTable, Metric: metric}
	if via != "" {
		r.Via = netip.MustParseAddr(via)
	} else {
		r.Scope = scopeLink
	}
	return Op{Verb: OpAddRoute, Link: link, Route: r}
}

func renamed(shows []string, old, name string) []string {
	var out []string
	for _, s := range shows {
		out = append(out, strings.ReplaceAll(s, old, name))
	}
	return out
}

func always(int, int) bool { return true }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func compileWish(t testing.TB, wish string) *Config {
	t.Helper()
	cfg, err := Parse("wish.yaml", []byte("version: 2\n"+wish))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// prepare plugs in the NICs and does the scenario's first steps.
func (s scenario) prepare(t testing.TB, l lab) {
	t.Helper()
	for i := range s.nics {
		if err := l.AddNIC(fmt.Sprintf("eth%d", i), fmt.Sprintf("02:00:00:00:00:%02x", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, st := range s.start {
		if st.event != "" {
			l.happen(t, st.event, st.link)
			continue
		}
		if err := l.Apply(t.Context(), st.op); !errors.Is(err, st.errs) {
			t.Fatalf("%s: %v, want %v", st.op, err, st.errs)
		}
	}
}

// run converges from the scenario's start, then again without a write, and once
// more for each operation after which the first try shall have died.
func (s scenario) run(t *testing.T, open func(testing.TB) lab, kills func(op, of int) bool) {
	cfg := compileWish(t, s.want)
	l := open(t)
	s.prepare(t, l)
	var report Report
	r := New(cfg, quiet(), Options{})
	if _, err := r.passes(t.Context(), l, &report); err != nil {
		t.Fatalf("%v\nafter %v", err, report.Ops)
	}
	if report.Passes > 4 {
		t.Errorf("%d passes:\n%v", report.Passes, report.Ops)
	}
	for _, op := range report.Ops {
		adds := []Verb{OpCreate, OpUp, OpRename, OpDropAltName, OpEnslave, OpAddAddress, OpAddRoute, OpAddRule}
		if op.Why == "" && !slices.Contains(adds, op.Verb) {
			t.Errorf("no reason given for %s", op)
		}
		if slices.Contains(s.never, op.Verb) {
			t.Errorf("not the least disruptive way: %s, in %v", op, report.Ops)
		}
	}
	if s.waits != "" && !slices.ContainsFunc(report.Waits, func(w Wait) bool { return strings.HasPrefix(w.Reason, s.waits) }) {
		t.Errorf("waits for %v, not because of %q", report.Waits, s.waits)
	}
	s.check(t, r, l)
	for i := range report.Ops {
		if !kills(i, len(report.Ops)) {
			continue
		}
		l := open(t)
		s.prepare(t, l)
		for _, op := range report.Ops[:i] {
			if err := l.Apply(t.Context(), op); err != nil {
				break // the report spans passes; an early end is as good
			}
		}
		s.check(t, New(cfg, quiet(), Options{}), l)
	}
}

// check converges, finds nothing to do in the next pass, and compares the
// result with what the scenario expects to see.
func (s scenario) check(t *testing.T, r *Reconciler, l lab) {
	t.Helper()
	ev := l.events(t)
	patience := time.After(5 * time.Second)
	for {
		var report Report
		if _, err := r.passes(t.Context(), l, &report); err != nil || report.Passes > 4 {
			t.Fatalf("%d passes, %v\nafter %v", report.Passes, err, report.Ops)
		}
		missing, got := s.missing(t, l)
		if len(missing) == 0 {
			break
		}
		select { // a kernel does more by itself: a new carrier has consequences
		case <-ev:
			continue
		case <-patience:
		}
		t.Fatalf("no %q in:%s", missing, got)
	}
	var again Report
	if _, err := r.passes(t.Context(), l, &again); err != nil || again.Writes != 0 {
		t.Fatalf("second run: %d writes, %v: %v", again.Writes, err, again.Ops)
	}
}

// missing is what the scenario expects and the lab does not show.
func (s scenario) missing(t *testing.T, l lab) (missing []string, got string) {
	t.Helper()
	have, err := l.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got = show(have)
	for _, line := range s.shows {
		if !strings.Contains(got, "\n"+line) {
			missing = append(missing, line)
		}
	}
	return missing, got
}

// show is a state as sorted lines; links of the lab's own are left out.
func show(s State) string {
	name := func(index int) string {
		if l := s.link(index); l != nil {
			return l.Name
		}
		return fmt.Sprint(index)
	}
	var lines []string
	for _, l := range s.Links {
		if strings.HasPrefix(l.Name, "peer") || l.Name == "lo" {
			continue
		}
		line := l.Name
		if l.Kind != "" && l.Kind != "veth" {
			line += " " + l.Kind
		}
		line += map[bool]string{true: " up", false: " down"}[l.Up] + fmt.Sprintf(" mtu %d", l.MTU)
		if l.Kind == "vlan" {
			line += fmt.Sprintf(" id %d on %s", l.VLAN, name(l.Parent))
		}
		if l.Kind == "bridge" {
			for _, o := range bridgeAttrs {
				if v, ok := l.Bridge[o.name]; ok {
					line += " " + o.name + " " + v
				}
			}
		}
		if l.Kind == "bond" {
			line += " mode " + l.Bond["mode"] + " miimon " + l.Bond["miimon"]
			if p := l.Bond["primary"]; p != "" {
				line += " primary " + p
			}
		}
		if l.Master != 0 {
			line += " in " + name(l.Master)
			for _, o := range brportAttrs[:2] {
				if v, ok := l.BridgePort[o.name]; ok {
					line += " " + o.name + " " + v
				}
			}
		}
		line += showIPv6(l)
		lines = append(lines, line)
	}
	for _, a := range s.Addresses {
		line := name(a.Link) + " " + a.Prefix.String()
		if a.Label != "" {
			line += " " + a.Label
		}
		if a.Deprecated {
			line += " deprecated"
		}
		if a.Dynamic {
			line += " dynamic"
		}
		lines = append(lines, line)
	}
	for _, r := range s.Routes {
		if r.Proto == ownProto {
			line := r.Route.where() + r.Route.how()
			if r.Link != 0 {
				line = name(r.Link) + " " + line
			}
			lines = append(lines, line)
		} else if r.Proto == protoRA || r.Proto == unix.RTPROT_UNSPEC {
			lines = append(lines, name(r.Link)+" foreign "+r.Route.where()+r.Route.how())
		}
	}
	for _, r := range s.Rules {
		if r.Proto == ownProto {
			lines = append(lines, "rule "+r.Rule.String())
		}
	}
	slices.Sort(lines)
	return "\n" + strings.Join(lines, "\n") + "\n"
}

// showIPv6 is what a link has otherwise than by default.
func showIPv6(l LinkState) string {
	s := ""
	if l.AcceptRA != 1 {
		s += fmt.Sprint(" ra ", l.AcceptRA)
		s += fmt.Sprint(" temp ", l.UseTempAddr)
	}
	if l.AddrGenMode != genByMAC {
		s += fmt.Sprint(" gen ", l.AddrGenMode)
	}
	if l.Token.IsValid() {
		s += " token " + l.Token.String()
	}
	if l.IPv6MTU != l.MTU && l.IPv6MTU != 0 {
		s += fmt.Sprint(" mtu6 ", l.IPv6MTU)
	}
	return s
}

var bg = context.Background()
