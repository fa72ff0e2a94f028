package operator

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// columns aligns rows of tab-separated cells.
func columns(w io.Writer, rows ...string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(t, row); err != nil {
			return err
		}
	}
	return t.Flush()
}

// WriteNodes is the table of `node list`.
func WriteNodes(w io.Writer, nodes []Node, now time.Time) error {
	if len(nodes) == 0 {
		_, err := fmt.Fprintln(w, "no node has enrolled yet: put a ticket (reveille ticket create) into its node.yaml and power it on")
		return err
	}
	rows := []string{"NAME\tSTATE\tSTAGE\tSEALED\tBOOTS\tSEEN\tCRASHES\tADDRESSES\tCONSOLES\tSERVICES\tREASON"}
	for _, n := range nodes {
		rows = append(rows, strings.Join([]string{
			n.Name, n.State, orDash(n.Stage), yesNo(n.Sealed), fmt.Sprint(n.Boots), ago(n.LastSeen, now),
			fmt.Sprint(n.AgentCrashes), few(n.Addresses, 2), consoles(n.Consoles), services(n), orDash(n.Reason),
		}, "\t"))
	}
	return columns(w, rows...)
}

// WriteNode is the table of `node show`.
func WriteNode(w io.Writer, n Node, now time.Time) error {
	rows := []string{
		"name\t" + n.Name,
		"state\t" + n.State + ", last seen " + ago(n.LastSeen, now),
		"stage\t" + orDash(n.Stage),
		"reason\t" + orDash(n.Reason),
		"sealed\t" + sealed(n),
		"boot\t" + orDash(n.BootID) + ", joined " + ago(n.Joined, now) + ", " + count(n.Boots, "boot") + " so far",
		"uptime\t" + age(time.Duration(n.UptimeSeconds*float64(time.Second))),
		"build\t" + orDash(n.BuildID),
		"addresses\t" + few(n.Addresses, len(n.Addresses)),
		"node API\t" + few(n.APIAddresses, len(n.APIAddresses)),
		"agent crashes\t" + fmt.Sprint(n.AgentCrashes),
		"last crash\t" + orDash(n.LastCrash),
		"boot before\t" + orDash(lastBoot(n)),
		"enrolled\t" + ago(n.Enrolled, now),
		"config\tgeneration " + fmt.Sprint(n.ConfigGeneration),
		"id\t" + n.ID,
		"key\tsha256:" + n.KeySHA256,
	}
	for _, c := range n.Consoles {
		rows = append(rows, fmt.Sprintf("console %s\t%s, %d bytes written, %s dropped", c.Name, stalled(c), c.WrittenBytes, count(c.DroppedLines, "line")))
	}
	return columns(w, slices.Concat(rows, linkRows(n), serviceRows(n))...)
}

// WriteTicket is the table of `ticket create`.
func WriteTicket(w io.Writer, t Ticket, now time.Time) error {
	node := t.Node
	if node == "" {
		node = "any"
	}
	return columns(w, "TICKET\tNODE\tEXPIRES", fmt.Sprintf("%s\t%s\tin %s", t.Ticket, node, age(t.Expires.Sub(now))))
}

// WriteTable is the table of `node remove`.
func (r Removed) WriteTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "node %s %s\n", r.Name, r.State)
	return err
}

// WriteRecord is one record of `node logs`, in the form of the node's consoles:
// what continues it is indented, so that no text looks like another record.
func WriteRecord(w io.Writer, r Record) error {
	if r.Lost > 0 {
		if _, err := fmt.Fprintf(w, "-- %s not shown: the node no longer had them --\n", count(r.Lost, "record")); err != nil {
			return err
		}
	}
	level := "?"
	if r.Level != "" {
		level = strings.ToUpper(r.Level[:1])
	}
	text := strings.ReplaceAll(r.Text, "\n", "\n    ")
	_, err := fmt.Fprintf(w, "[%9.3f] %-12s  %s %s\n", r.UptimeSeconds, r.Origin, level, text)
	return err
}

// lastBoot is how the boot before this one ended, "power loss: no ordered stop".
func lastBoot(n Node) string {
	if n.LastBootReason == "" {
		return n.LastBootEnd
	}
	return n.LastBootEnd + ": " + n.LastBootReason
}

func sealed(n Node) string {
	text := yesNo(n.Sealed)
	if n.Binding != "" {
		text += ", bound to " + n.Binding
	}
	return text + " (TPM " + n.TPM + ")"
}

// consoles names only those with trouble: "2 ok", or "ttyS0 stalled, ttyS1 312 dropped".
func consoles(all []Console) string {
	var trouble []string
	for _, c := range all {
		switch {
		case c.Stalled:
			trouble = append(trouble, c.Name+" stalled")
		case c.DroppedLines > 0:
			trouble = append(trouble, fmt.Sprintf("%s %d dropped", c.Name, c.DroppedLines))
		}
	}
	if len(trouble) > 0 {
		return few(trouble, 2)
	}
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%d ok", len(all))
}

func stalled(c Console) string {
	if c.Stalled {
		return "stalled"
	}
	return "draining"
}

// few is the first of a list, and how many more there are.
func few(list []string, show int) string {
	if len(list) == 0 {
		return "-"
	}
	if len(list) <= show {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s (+%d)", strings.Join(list[:show], ", "), len(list)-show)
}

func count[N uint32 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func ago(t *time.Time, now time.Time) string {
	if t == nil {
		return "never"
	}
	return age(now.Sub(*t)) + " ago"
}

// age is a duration in its largest whole unit: "12s", "5m", "3h", "2d". A
// clock that disagrees a little makes it negative: "0s".
func age(d time.Duration) string {
	switch d = max(d.Round(time.Second), 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
