package netcfg

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden runs each txtar file of a folder through produce, which returns the
// last section from the others.
func golden(t *testing.T, folder string, produce func(*testing.T, map[string][]byte) string) {
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files in %s: %v", folder, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sections := map[string][]byte{}
			for _, f := range ar.Files {
				sections[f.Name] = f.Data
			}
			got := produce(t, sections)
			last := &ar.Files[len(ar.Files)-1]
			if *update {
				last.Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(last.Data), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", last.Name, diff)
			}
		})
	}
}

// TestPlan: config + have = want-ops, and what is waited for.
func TestPlan(t *testing.T) {
	golden(t, "plan", func(t *testing.T, in map[string][]byte) string {
		cfg, err := Parse("config", in["config"])
		if err != nil {
			t.Fatal(err)
		}
		var have State
		dec := yaml.NewDecoder(bytes.NewReader(in["have"]))
		dec.KnownFields(true)
		if err := dec.Decode(&have); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		ops, waits := plan(cfg, have)
		for _, op := range ops {
			fmt.Fprintln(&out, op)
		}
		for _, w := range waits {
			if fmt.Fprint(&out, w); w.Optional {
				out.WriteString(" (optional)")
			}
			out.WriteString("\n")
		}
		return out.String()
	})
}

// TestCheck: document = problems.
func TestCheck(t *testing.T) {
	golden(t, "check", func(t *testing.T, in map[string][]byte) string {
		cfg, err := Parse("n.yaml", in["n.yaml"])
		if err == nil {
			return fmt.Sprintf("valid, modules %v\n", cfg.Modules())
		}
		return err.Error() + "\n"
	})
}
