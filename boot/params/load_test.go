package params

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"reveille/netcfg"
)

// nodeYAML is a right node.yaml for the node called name.
func nodeYAML(t *testing.T, name string) string {
	return strings.Replace(string(file(t, "least.yaml")), "name: n1", "name: "+name, 1)
}

// machine is a root file system with the given files and command line.
func machine(cmdline string, files map[string]string) fstest.MapFS {
	root := fstest.MapFS{"proc/cmdline": &fstest.MapFile{Data: []byte(cmdline + "\n")}}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// dmi is a structure table with a BIOS and the given OEM strings.
func dmi(strings ...string) string {
	table := "\x00\x04\x00\x00vendor\x00\x00" + "\x0b\x05\x01\x00" + string(rune(len(strings)))
	for _, s := range strings {
		table += s + "\x00"
	}
	return table + "\x00" + "\x7f\x04\x02\x00\x00\x00"
}

var volumes = []Volume{{"state partition", "/run/state"}, {"ESP", ""}}

// Each place is used when those before it have nothing, in the order of the
// design.
func TestLoadOrder(t *testing.T) {
	files := map[string]string{
		fwcfgPath:                        nodeYAML(t, "fwcfg"),
		"run/state/reveille/node.yaml":   nodeYAML(t, "state"),
		dmiPath:                          dmi("other", "reveille.node="+b64(nodeYAML(t, "smbios"))),
		bakedInPath:                      nodeYAML(t, "baked"),
		"proc/device-tree/unrelated.txt": "x",
	}
	cmdline := "quiet reveille.node=" + b64(nodeYAML(t, "cmdline")) + " rdinit=/init"
	for _, step := range []struct{ name, remove string }{
		{"fwcfg", fwcfgPath}, {"state", "run/state/reveille/node.yaml"}, {"smbios", dmiPath}, {"cmdline", "cmdline"}, {"baked", bakedInPath},
	} {
		p, looked, err := Load(t.Context(), Places{Root: machine(cmdline, files), Volumes: volumes})
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != step.name {
			t.Errorf("got %s, want %s", p.Name, step.name)
		}
		if len(looked) != 6 || p.Source == "" || !strings.Contains(looked.String(), p.Source+": used") {
			t.Errorf("source %q, looked at %s", p.Source, looked)
		}
		delete(files, step.remove)
		if step.remove == "cmdline" {
			cmdline = "quiet"
		}
	}
	_, looked, err := Load(t.Context(), Places{Root: machine(cmdline, files), Volumes: volumes})
	var none *NotFoundError
	if !errors.As(err, &none) {
		t.Fatalf("got %v", err)
	}
	const want = "fw_cfg opt/reveille/node.yaml: no such file, state partition reveille/node.yaml: no such file, " +
		"ESP reveille/node.yaml: not mounted, SMBIOS OEM string reveille.node=: no such file, " +
		"kernel command line reveille.node=: no such key, /etc/reveille/node.yaml: no such file"
	if looked.String() != want || err.Error() != "find node parameters: none in any of 6 places; give this node its node.yaml in one of them" {
		t.Errorf("looked at %s", looked)
	}
}

// What exists and is wrong is never skipped in favour of something else.
func TestLoadStopsAtWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		name, cmdline string
		file, text    string
		want          string
	}{
		{"not YAML", "", fwcfgPath, "a: [", "fw_cfg opt/reveille/node.yaml:1:1: not YAML: did not find expected node content"},
		{"unknown key", "", "run/state/reveille/node.yaml", nodeYAML(t, "n1") + "tmp: x\n",
			`state partition reveille/node.yaml:15:1: tmp: unknown key; did you mean "tpm"?`},
		{"empty", "", fwcfgPath, "", "fw_cfg opt/reveille/node.yaml: is empty"},
		{"bad base64", "reveille.node=%%%", "", "",
			"read node parameters from kernel command line reveille.node=: decode base64: illegal base64 data at input byte 0"},
		{"bad OEM string", "", dmiPath, dmi("reveille.node=!"),
			"read node parameters from SMBIOS OEM string reveille.node=: decode base64: illegal base64 data at input byte 0"},
		{"too large", "", fwcfgPath, strings.Repeat("#", maxFile+1),
			"read node parameters from fw_cfg opt/reveille/node.yaml: read /" + fwcfgPath + ": is larger than 2097152 bytes"},
		{"setting", "reveille.tmp=required", "etc/other", "",
			`/proc/cmdline:1:1: reveille.tmp: unknown key; did you mean "tpm"?`},
		{"setting and document", "quiet reveille.tpm=yes", fwcfgPath, "version: 1",
			"/proc/cmdline:1:7: reveille.tpm: wants one of required, preferred, disabled\n" +
				"fw_cfg opt/reveille/node.yaml:1:1: wants the key \"name\"\n" +
				"fw_cfg opt/reveille/node.yaml:1:1: wants the key \"cluster\"\n" +
				"fw_cfg opt/reveille/node.yaml:1:1: wants the key \"network\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := map[string]string{bakedInPath: nodeYAML(t, "baked")}
			if tc.file != "" {
				files[tc.file] = tc.text
			}
			p, looked, err := Load(t.Context(), Places{Root: machine(tc.cmdline, files), Volumes: volumes})
			if err == nil || p != nil || len(looked) == 0 {
				t.Fatalf("got %+v, %v", p, err)
			}
			if err.Error() != tc.want {
				t.Errorf("got  %s\nwant %s", err, tc.want)
			}
			var none *NotFoundError
			if errors.As(err, &none) {
				t.Error("wrong parameters read as none")
			}
		})
	}
}

// A source that is corrected is seen by the next call.
func TestLoadAgain(t *testing.T) {
	root := machine("", map[string]string{fwcfgPath: "version: 2"})
	places := Places{Root: root}
	if _, _, err := Load(t.Context(), places); err == nil {
		t.Fatal("took a wrong one")
	}
	root[fwcfgPath].Data = []byte(nodeYAML(t, "n2"))
	if p, _, err := Load(t.Context(), places); err != nil || p.Name != "n2" {
		t.Errorf("got %v, %v", p, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Load(ctx, places); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	delete(root, cmdlinePath)
	if _, _, err := Load(t.Context(), places); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without /proc: %v", err)
	}
	root[fwcfgPath].Mode = fs.ModeNamedPipe
	root[cmdlinePath] = &fstest.MapFile{}
	if _, _, err := Load(t.Context(), places); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("with a FIFO: %v", err)
	}
}

func TestSettingsOverride(t *testing.T) {
	root := machine(`reveille.tpm=disabled reveille.debug reveille.show=svc/* "reveille.console=ttyS1,9600;ttyS0"`, map[string]string{bakedInPath: nodeYAML(t, "n1")})
	p, _, err := Load(t.Context(), Places{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	if p.TPM != TPMDisabled {
		t.Errorf("got %+v", p.Settings)
	}
}

// The command line's node.yaml carries a ticket as well.
func TestCommandLineIsNotPrinted(t *testing.T) {
	text := b64(nodeYAML(t, "n1"))
	p, _, err := Load(t.Context(), Places{Root: machine("reveille.node="+text, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprintf("%v %+v %#v", p, *p, p.Settings); strings.Contains(s, text[:40]) {
		t.Errorf("node.yaml in %s", s)
	}
}

func TestWords(t *testing.T) {
	for line, want := range map[string]string{
		``:                               ``,
		`quiet`:                          `quiet=@1`,
		`  a=b   c `:                     `a=b@3 c=@9`,
		`a="b c" d`:                      `a=b c@1 d=@9`,
		`"a=b c" d`:                      `a=b c@1 d=@9`,
		`a=b=c`:                          `a=b=c@1`,
		"a\tb\nc":                        `a=@1 b=@3 c=@5`,
		`dyndbg="file x.c +p" ro`:        `dyndbg=file x.c +p@1 ro=@22`,
		`a="b c`:                         `a=b c@1`,
		`"`:                              `=@1`,
		`a=b"c d"e f`:                    `a=b"c d"e@1 f=@11`,
		`reveille.node=eA== -- x`:        `reveille.node=eA==@1 --=@20 x=@23`,
		`BOOT_IMAGE=/vmlinuz root=LABEL`: `BOOT_IMAGE=/vmlinuz@1 root=LABEL@21`,
	} {
		var got []string
		for _, w := range words(line) {
			got = append(got, fmt.Sprintf("%s=%s@%d", w.key, w.value, w.column))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %s, want %s", line, s, want)
		}
	}
}

func TestParseCommandLine(t *testing.T) {
	_, err := ParseCommandLine("console=ttyS0 reveille.console=ttyS1 reveille.debug=0 reveille.dbug reveille.tpm reveille.show reveille.=")
	want := `/proc/cmdline:1:55: reveille.dbug: unknown key; did you mean "debug"?
/proc/cmdline:1:69: reveille.tpm: wants one of required, preferred, disabled
/proc/cmdline:1:82: reveille.show: needs a value
/proc/cmdline:1:96: reveille.: unknown key`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if _, err := ParseCommandLine("reveille.screen=off reveille.debug"); err != nil {
		t.Error(err)
	}
	s, err := ParseCommandLine("reveille.fault=agent-panic@network")
	if faults != (err == nil) || faults != (s.Fault != "") {
		t.Errorf("hooks %v: got %+v, %v", faults, s, err)
	}
}

func TestOEMStrings(t *testing.T) {
	for name, tc := range map[string]struct{ table, want string }{
		"two":         {dmi("a", "b"), "a|b"},
		"torn":        {dmi("a")[:16], ""},
		"short":       {"\x0b\x03\x00", ""},
		"lying":       {"\x0b\xff\x00\x00a\x00\x00", ""},
		"zero length": {"\x0b\x00\x00\x00a\x00\x00", ""},
		"after end":   {"\x7f\x04\x00\x00\x00\x00" + dmi("a"), ""},
		"two tables":  {strings.TrimSuffix(dmi("a"), "\x7f\x04\x02\x00\x00\x00") + dmi("b"), "a|b"},
	} {
		if got := strings.Join(oemStrings([]byte(tc.table)), "|"); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func FuzzOEMStrings(f *testing.F) {
	f.Add([]byte(dmi("reveille.node=eA==", "x")))
	f.Add([]byte(dmi()))
	f.Fuzz(func(t *testing.T, table []byte) {
		total := 0
		for _, s := range oemStrings(table) {
			total += len(s) + 1
		}
		if total > len(table)+1 {
			t.Errorf("%d bytes of strings from a table of %d", total, len(table))
		}
	})
}

func FuzzCommandLine(f *testing.F) {
	f.Add(`console=ttyS0 quiet reveille.tpm="required" "reveille.node=eA==" -- reveille.debug`)
	f.Add(`a="b c reveille.x`)
	f.Fuzz(func(t *testing.T, line string) {
		last := 0
		for _, w := range words(line) {
			if w.column <= last || w.column > len(line) {
				t.Errorf("word %+v at column %d after %d", w, w.column, last)
			}
			last = w.column
		}
		_, err := ParseCommandLine(line)
		var problems netcfg.Problems
		if err != nil && !errors.As(err, &problems) {
			t.Errorf("got %v", err)
		}
	})
}
