package cluster

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/identity"
)

// Bounds on what nodes say of themselves, in bytes and entries: generous for
// the honest, and some 8 KiB a node in the store for the others.
const (
	maxName    = 64
	maxBuildID = 128
	maxReason  = 512
	maxTicket  = 128
	maxList    = 16
	maxLogText = 128 << 10 // the longest record that a node keeps

	maxServices = 64 // a node with more lists its unwell ones first
)

// printable makes a stranger's text safe for a terminal, a log and a table:
// one line, no control or invisible characters, at most limit bytes.
func printable(s string, limit int) string { return printableBut("", s, limit) }

// printableLines is printable for a text that may have several lines.
func printableLines(s string, limit int) string { return printableBut("\n\t", s, limit) }

func printableBut(keep, s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(keep, r) {
			return r
		}
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s[:min(len(s), 2*limit)])
	if len(s) <= limit {
		return s
	}
	cut := limit - len("...")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// cleanStatus is the status as it may be stored: bounded and printable, with
// addresses that are addresses.
func cleanStatus(st *clusterv1.NodeStatus) *clusterv1.NodeStatus {
	clean := &clusterv1.NodeStatus{
		Stage:        printable(st.GetStage(), maxName),
		Reason:       printable(st.GetReason(), maxReason),
		Sealed:       st.GetSealed(),
		Binding:      printable(st.GetBinding(), maxBuildID),
		AgentCrashes: st.GetAgentCrashes(),
		LastCrash:    printable(st.GetLastCrash(), maxReason),

		LastBootEnd:    printable(st.GetLastBootEnd(), maxName),
		LastBootReason: printable(st.GetLastBootReason(), maxReason),

		ServicesGeneration: st.GetServicesGeneration(), ServicesProblem: printable(st.GetServicesProblem(), maxReason),
	}
	if st.GetUptime().IsValid() {
		clean.Uptime = proto.CloneOf(st.GetUptime())
	}
	for _, addr := range st.GetAddresses() {
		if ip, err := netip.ParseAddr(addr); err == nil && len(clean.Addresses) < maxList {
			clean.Addresses = append(clean.Addresses, ip.WithZone("").String())
		}
	}
	for _, addr := range st.GetApiAddresses() {
		if identity.CheckAddress(addr) == nil && len(clean.ApiAddresses) < maxList {
			clean.ApiAddresses = append(clean.ApiAddresses, addr)
		}
	}
	consoles := st.GetConsoles()
	for _, c := range consoles[:min(len(consoles), maxList)] {
		clean.Consoles = append(clean.Consoles, &clusterv1.ConsoleStatus{
			Name:         printable(c.GetName(), maxName),
			WrittenBytes: c.GetWrittenBytes(),
			DroppedLines: c.GetDroppedLines(),
			Stalled:      c.GetStalled(),
		})
	}
	links := st.GetLinks()
	clean.MoreLinks = st.GetMoreLinks()
	for _, l := range links[:min(len(links), maxList)] {
		clean.Links = append(clean.Links, cleanLink(l))
	}
	services := st.GetServices()
	listed := min(len(services), maxServices)
	clean.MoreServices = st.GetMoreServices() + uint32(len(services)-listed)
	for _, s := range services[:listed] {
		clean.Services = append(clean.Services, cleanService(s))
	}
	return clean
}

func cleanService(s *clusterv1.ServiceStatus) *clusterv1.ServiceStatus {
	clean := &clusterv1.ServiceStatus{
		Name: printable(s.GetName(), maxName), State: printable(s.GetState(), maxName), Enabled: s.GetEnabled(),
		Ready: s.GetReady(), Verdict: printable(s.GetVerdict(), maxName), Incarnation: s.GetIncarnation(),
		Generation: s.GetGeneration(), Reason: printable(s.GetReason(), maxReason),
	}
	if s.GetSince().IsValid() {
		clean.Since = proto.CloneOf(s.GetSince())
	}
	if s.GetNextTry().IsValid() {
		clean.NextTry = proto.CloneOf(s.GetNextTry())
	}
	instances := s.GetInstances()
	listed := min(len(instances), maxList)
	clean.MoreInstances = s.GetMoreInstances() + uint32(len(instances)-listed)
	for _, i := range instances[:listed] {
		clean.Instances = append(clean.Instances, &clusterv1.ServiceInstance{
			Id: printable(i.GetId(), maxName), Generation: i.GetGeneration(), State: printable(i.GetState(), maxName),
		})
	}
	needs := s.GetNeeds()
	for _, n := range needs[:min(len(needs), maxList)] {
		clean.Needs = append(clean.Needs, printable(n, maxName))
	}
	return clean
}

func cleanLink(l *clusterv1.LinkStatus) *clusterv1.LinkStatus {
	clean := &clusterv1.LinkStatus{
		Name: printable(l.GetName(), maxName), Kind: printable(l.GetKind(), maxName), Mac: printable(l.GetMac(), maxName),
		Mtu: l.GetMtu(), Up: l.GetUp(), Carrier: l.GetCarrier(), Mode: printable(l.GetMode(), maxName),
		LacpActor: printable(l.GetLacpActor(), maxName), LacpPartner: printable(l.GetLacpPartner(), maxName),
		Aggregator: l.GetAggregator(), Problem: printable(l.GetProblem(), maxReason),
	}
	addresses := l.GetAddresses()
	for _, a := range addresses[:min(len(addresses), maxList)] {
		clean.Addresses = append(clean.Addresses, &clusterv1.LinkAddress{
			Prefix: printable(a.GetPrefix(), maxName), State: printable(a.GetState(), maxName), Wanted: a.GetWanted(),
		})
	}
	ports := l.GetPorts()
	for _, p := range ports[:min(len(ports), maxList)] {
		clean.Ports = append(clean.Ports, &clusterv1.LinkPort{
			Name: printable(p.GetName(), maxName), Carrier: p.GetCarrier(), InUse: p.GetInUse(),
			LacpPartner: printable(p.GetLacpPartner(), maxName), Aggregator: p.GetAggregator(), Churned: p.GetChurned(),
			Speed: p.GetSpeed(), CarrierLosses: p.GetCarrierLosses(),
		})
	}
	leases := l.GetLeases()
	for _, lease := range leases[:min(len(leases), maxList)] {
		clean.Leases = append(clean.Leases, printable(lease, maxReason))
	}
	return clean
}
