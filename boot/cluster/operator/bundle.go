package operator

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/crash"
)

// Bundle is a crash record in a list. Times are null when the node's clock did
// not tell, as it does not in a dump of the kernel's.
type Bundle struct {
	ID            string     `json:"id" yaml:"id"`
	Kind          string     `json:"kind" yaml:"kind"` // agent, init, kernel, service
	Reason        string     `json:"reason" yaml:"reason"`
	Time          *time.Time `json:"time" yaml:"time"` // of the death, by the node's clock
	Received      *time.Time `json:"received" yaml:"received"`
	BootID        string     `json:"bootId" yaml:"bootId"`
	BuildID       string     `json:"buildId" yaml:"buildId"`
	Stage         string     `json:"stage" yaml:"stage"`
	Incarnation   uint64     `json:"incarnation" yaml:"incarnation"` // of the agent; 0 for others
	UptimeSeconds float64    `json:"uptimeSeconds" yaml:"uptimeSeconds"`
	Size          uint32     `json:"size" yaml:"size"` // bytes
}

// CrashRecord is a whole one, with its texts as the node kept them.
type CrashRecord struct {
	Bundle       `yaml:",inline"`
	RanSeconds   float64  `json:"ranSeconds" yaml:"ranSeconds"`
	WaitStatus   string   `json:"waitStatus" yaml:"waitStatus"`
	Frame        string   `json:"frame" yaml:"frame"` // the top one
	Summary      []string `json:"summary" yaml:"summary"`
	WrittenBytes int64    `json:"writtenBytes" yaml:"writtenBytes"` // of the trace before the node cut it
	Trace        string   `json:"trace" yaml:"trace"`
	Log          string   `json:"log" yaml:"log"`
	Dmesg        string   `json:"dmesg" yaml:"dmesg"`
	CoreBytes    int      `json:"coreBytes" yaml:"coreBytes"` // of a service's memory when it crashed: see --core
	Core         []byte   `json:"-" yaml:"-"`
}

// BundleOf is the view of a bundle in a list.
func BundleOf(b *clusterv1.Bundle) Bundle {
	return Bundle{
		ID: b.GetId(), Kind: b.GetKind(), Reason: b.GetReason(), Time: moment(b.GetTime()), Received: moment(b.GetReceived()),
		BootID: b.GetBootId(), BuildID: b.GetBuildId(), Stage: b.GetStage(), Incarnation: b.GetIncarnation(),
		UptimeSeconds: b.GetUptime().AsDuration().Seconds(), Size: b.GetSize(),
	}
}

// BundlesOf is the view of a node's bundles, oldest first.
func BundlesOf(resp *clusterv1.ListBundlesResponse) []Bundle {
	bundles := []Bundle{}
	for _, b := range resp.GetBundles() {
		bundles = append(bundles, BundleOf(b))
	}
	return bundles
}

// CrashRecordOf opens a bundle and checks that it is what the node stored.
func CrashRecordOf(resp *clusterv1.GetBundleResponse) (CrashRecord, error) {
	st, err := crash.Decode(resp.GetRecord())
	if err != nil {
		return CrashRecord{}, err
	}
	if st.ID != resp.GetBundle().GetId() {
		return CrashRecord{}, fmt.Errorf("asked for bundle %s, got %s", resp.GetBundle().GetId(), st.ID)
	}
	dmesg, core := st.Dmesg, []byte(nil)
	if st.Kind == crash.Service {
		var err error
		if core, err = crash.UnpackCore(st.Dmesg); err != nil {
			return CrashRecord{}, err
		}
		dmesg = nil
	}
	return CrashRecord{
		CoreBytes: len(core), Core: core,
		Bundle: BundleOf(resp.GetBundle()), RanSeconds: st.Ran.Seconds(), WaitStatus: st.WaitStatus, Frame: st.Frame,
		Summary: append([]string{}, st.Summary...), WrittenBytes: st.Written,
		Trace: text(st.Trace), Log: text(st.Log), Dmesg: text(dmesg),
	}, nil
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\ufffd") }

// WriteBundles is the table of `node bundle NAME`.
func WriteBundles(w io.Writer, node string, bundles []Bundle, now time.Time) error {
	if len(bundles) == 0 {
		_, err := fmt.Fprintf(w, "node %s has sent no crash record\n", node)
		return err
	}
	rows := []string{"ID\tRECEIVED\tKIND\tBOOT\tUPTIME\tSTAGE\tREASON"}
	for _, b := range bundles {
		rows = append(rows, strings.Join([]string{
			b.ID, ago(b.Received, now), b.Kind, orDash(b.BootID[:min(len(b.BootID), 8)]), b.uptime(), orDash(b.Stage), orDash(b.Reason),
		}, "\t"))
	}
	return columns(w, rows...)
}

func (b Bundle) uptime() string {
	if b.UptimeSeconds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3fs", b.UptimeSeconds)
}

// WriteText is a crash record for people.
func (r CrashRecord) WriteText(w io.Writer) error {
	died := "unknown"
	if r.Time != nil {
		died = r.Time.Format(time.RFC3339) + " by the node's clock"
	}
	rows := []string{
		"bundle\t" + r.ID + ", " + count(r.Size, "byte"),
		"kind\t" + r.Kind,
		"reason\t" + terminal(r.Reason),
		"at\t" + orDash(terminal(r.Frame)),
		"died\t" + died + ", uptime " + r.uptime(),
		"boot\t" + orDash(r.BootID),
		"build\t" + orDash(r.BuildID),
	}
	if r.Kind != string(crash.Kernel) {
		rows = append(rows, "stage\t"+orDash(r.Stage),
			fmt.Sprintf("ended\tincarnation %d after %.3fs: %s", r.Incarnation, r.RanSeconds, orDash(terminal(r.WaitStatus))))
	}
	if r.CoreBytes > 0 {
		rows = append(rows, fmt.Sprintf("core\t%s of it are in the bundle; --core FILE writes them", count(uint64(r.CoreBytes), "byte")))
	}
	if err := columns(w, rows...); err != nil {
		return err
	}
	for _, part := range []struct{ title, text string }{
		{fmt.Sprintf("trace (%s written)", count(uint64(max(r.WrittenBytes, 0)), "byte")), r.Trace},
		{"log before it", r.Log},
		{"kernel log", r.Dmesg},
	} {
		if part.text == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n-- %s --\n%s\n", part.title, strings.TrimRight(terminal(part.text), "\n")); err != nil {
			return err
		}
	}
	return nil
}

// terminal makes a node's text harmless to the terminal that shows it.
func terminal(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}
