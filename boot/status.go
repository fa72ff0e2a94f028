package boot

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/durationpb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/proc"
)

// askInit bounds what a heartbeat waits for init's numbers. init answers in
// microseconds; without an answer the heartbeat goes out with the last known.
const askInit = 2 * time.Second

// known is what init last said of this boot. An init that does not answer in
// time has not had fewer crashes for it.
type known struct {
	mu       sync.Mutex
	crashes  proc.Crashes
	lastBoot proc.LastBoot
	consoles []proc.ConsoleStats
}

// ask brings up to date what init answers.
func (k *known) ask(ctx context.Context, init *proc.Client) {
	crashes, noCrashes := init.Crashes(ctx)
	lastBoot, noLastBoot := init.LastBoot(ctx)
	consoles, noConsoles := init.Consoles(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if noCrashes == nil {
		k.crashes = crashes
	}
	if noLastBoot == nil {
		k.lastBoot = lastBoot
	}
	if noConsoles == nil {
		k.consoles = consoles
	}
}

func (k *known) tell(s *clusterv1.NodeStatus) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.AgentCrashes, s.LastCrash = k.crashes.Count, k.crashes.Last
	s.LastBootEnd, s.LastBootReason = k.lastBoot.End, k.lastBoot.Reason
	for _, c := range k.consoles {
		s.Consoles = append(s.Consoles, &clusterv1.ConsoleStatus{
			Name: c.Name, WrittenBytes: c.WrittenBytes, DroppedLines: c.DroppedLines, Stalled: c.Stalled,
		})
	}
}

// status is the truth that a heartbeat carries.
func (n *Node) status() *clusterv1.NodeStatus {
	ctx, cancel := context.WithTimeout(context.Background(), askInit)
	defer cancel()
	stage, reason := n.track.Now()
	net := n.net.Status()
	info := n.opened.info()
	s := &clusterv1.NodeStatus{
		Stage:        stage,
		Reason:       reason,
		Sealed:       info.Sealed,
		Binding:      info.Binding,
		ApiAddresses: n.apiAddresses(net.Addresses),
		Uptime:       durationpb.New(uptime()),
	}
	for _, a := range net.Addresses {
		s.Addresses = append(s.Addresses, a.String())
	}
	s.Links, s.MoreLinks = links(net)
	n.known.ask(ctx, n.init)
	n.known.tell(s)
	n.desired.tell(s)
	tellServices(n.serviceStatus(), uptime(), s)
	return s
}

// apiAddresses are where operators find this node's API: as the parameters
// say, or every address of the node with the port it listens on.
func (n *Node) apiAddresses(own []netip.Addr) []string {
	if len(n.params.API.Advertise) > 0 {
		return n.params.API.Advertise
	}
	_, port, err := net.SplitHostPort(n.params.API.Listen)
	if err != nil {
		return nil // params checked it
	}
	var at []string
	for _, a := range own {
		at = append(at, net.JoinHostPort(a.String(), port))
	}
	return at
}

// uptime is CLOCK_BOOTTIME: it counts suspension too and no one sets it.
func uptime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
