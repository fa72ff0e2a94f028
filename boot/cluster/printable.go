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
	maxLogText = 64 << 10
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
	return clean
}
