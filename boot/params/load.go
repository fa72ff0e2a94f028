package params

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"reveille/netcfg"
)

// Where the candidates are, relative to the node's root.
const (
	cmdlinePath = "proc/cmdline"
	fwcfgPath   = "sys/firmware/qemu_fw_cfg/by_name/opt/reveille/node.yaml/raw" // Linux drivers/firmware/qemu_fw_cfg.c
	dmiPath     = "sys/firmware/dmi/tables/DMI"                                 // Linux drivers/firmware/dmi_scan.c
	bakedInPath = "etc/reveille/node.yaml"
	volumePath  = "reveille/node.yaml"
)

const (
	// maxFile bounds what is read of any candidate: netcfg reads documents of
	// at most 1 MiB, and base64 makes 4/3 of that. An SMBIOS table is at most
	// 64 KiB, or some MiB of a mad firmware.
	maxFile = 2 << 20
	// nodeKey introduces a node.yaml in an SMBIOS OEM string.
	nodeKey = "reveille.node="
)

// Places says where to look.
type Places struct {
	Root    fs.FS    // the node's "/"
	Volumes []Volume // state partition, then the ESP
	Kept    []byte   // of Params.Keep earlier in this boot; goes before all places
}

// Volume is a file system that may carry reveille/node.yaml.
type Volume struct {
	Name string // for the log: "state partition"
	Dir  string // where it is mounted, below Root; empty while it is not
}

// Candidate is one place that was looked at.
type Candidate struct {
	Name  string
	State string // "used", "not looked at", or why it has none
}

// Search is every candidate, in order; for the log.
type Search []Candidate

func (s Search) String() string {
	var b strings.Builder
	for i, c := range s {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %s", c.Name, c.State)
	}
	return b.String()
}

// NotFoundError means that no place has node parameters: the node is not
// configured, as opposed to configured wrongly. Its text is short, since it is
// repeated; the places are for a line of their own.
type NotFoundError struct{ Looked Search }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("find node parameters: none in any of %d places; give this node its node.yaml in one of them", len(e.Looked))
}

// errAbsent ends the look at one candidate without a verdict.
type errAbsent string

func (e errAbsent) Error() string { return string(e) }

// candidate is a way to get at a node.yaml. read returns errAbsent for "none
// here"; any other error means that there is one, and it cannot be used.
type candidate struct {
	name string
	read func() ([]byte, error)
}

// Load looks at the places in order, takes the first node.yaml, and applies
// the kernel command line's settings. A source that exists and is wrong ends
// the search with its error: falling through to the next would boot a machine
// with parameters that the operator believes replaced. The error is a
// *NotFoundError, a netcfg.Problems, or one of reading or of ctx; the Search is
// valid beside each.
func Load(ctx context.Context, places Places) (*Params, Search, error) {
	cmdline, err := readFile(places.Root, cmdlinePath)
	if err != nil {
		return nil, nil, fmt.Errorf("read kernel command line: %w", err)
	}
	settings, settingsErr := ParseCommandLine(strings.TrimSuffix(string(cmdline), "\n"))
	candidates := places.candidates(settings)
	looked := make(Search, len(candidates))
	for i, c := range candidates {
		looked[i] = Candidate{c.name, "not looked at"}
	}
	for i, c := range candidates {
		if err := ctx.Err(); err != nil {
			return nil, looked, err
		}
		text, err := c.read()
		var absent errAbsent
		if errors.As(err, &absent) {
			looked[i].State = string(absent)
			continue
		}
		looked[i].State = "used"
		if err != nil {
			return nil, looked, fmt.Errorf("read node parameters from %s: %w", c.name, err)
		}
		p, err := Parse(c.name, text)
		if err := allProblems(settingsErr, err); err != nil {
			return nil, looked, err
		}
		p.Source, p.Document = c.name, Secret{string(text)}
		p.apply(settings)
		return p, looked, nil
	}
	if settingsErr != nil {
		return nil, looked, settingsErr
	}
	return nil, looked, &NotFoundError{looked}
}

func (p *Params) apply(s Settings) {
	p.Settings = s
	if s.TPM != "" {
		p.TPM = s.TPM
	}
}

// allProblems joins the problems of two sources into one error.
func allProblems(a, b error) error {
	var pa, pb netcfg.Problems
	errors.As(a, &pa)
	errors.As(b, &pb)
	if all := slices.Concat(pa, pb); len(all) > 0 {
		return all
	}
	return nil
}

// keptMark marks the source of a document that an agent before this one used.
const keptMark = ", as it was earlier in this boot"

// Keep returns the document for an agent to come: all agents of a boot go by
// the same one, whatever has become of its source, or of one before it that was
// late. It may hold secrets: it belongs into memory that init keeps, and into no
// file.
func (p *Params) Keep() []byte {
	return []byte(strings.TrimSuffix(p.Source, keptMark) + "\n" + p.Document.Reveal())
}

func (p Places) candidates(s Settings) []candidate {
	var out []candidate
	if source, text, ok := bytes.Cut(p.Kept, []byte{'\n'}); ok {
		out = append(out, candidate{string(source) + keptMark, func() ([]byte, error) { return text, nil }})
	}
	out = append(out, candidate{"fw_cfg opt/reveille/node.yaml", p.file(fwcfgPath)})
	for _, v := range p.Volumes {
		read := func() ([]byte, error) { return nil, errAbsent("not mounted") }
		if v.Dir != "" {
			read = p.file(path.Join(strings.TrimPrefix(v.Dir, "/"), volumePath))
		}
		out = append(out, candidate{v.Name + " " + volumePath, read})
	}
	return append(out,
		candidate{"SMBIOS OEM string " + nodeKey, p.smbios},
		candidate{"kernel command line " + nodeKey, func() ([]byte, error) {
			if !s.Node.Set() {
				return nil, errAbsent("no such key")
			}
			return decode(s.Node.Reveal())
		}},
		candidate{"/" + bakedInPath, p.file(bakedInPath)},
	)
}

func (p Places) file(name string) func() ([]byte, error) {
	return func() ([]byte, error) {
		text, err := readFile(p.Root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errAbsent("no such file")
		}
		return text, err
	}
}

func (p Places) smbios() ([]byte, error) {
	table, err := p.file(dmiPath)()
	if err != nil {
		return nil, err
	}
	for _, s := range oemStrings(table) {
		if text, ok := strings.CutPrefix(s, nodeKey); ok {
			return decode(text)
		}
	}
	return nil, errAbsent("no such string")
}

// decode reads standard or URL-safe base64, padded or not: '=' and '+' do not
// survive every boot loader.
func decode(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	out, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("decode base64: %w", err)
	}
	return out, nil
}

// readFile reads a regular file of bounded size: opening anything else (a
// FIFO, a tty) could wait for ever.
func readFile(root fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(root, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read /%s: is no regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("read /%s: is larger than %d bytes", name, maxFile)
	}
	return text, nil
}
