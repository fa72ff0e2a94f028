package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// run executes one operator command as main does, and returns its output.
func run(ctx context.Context, out io.Writer, args ...string) error {
	root := &cobra.Command{Use: "reveille", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().String("context", "", "")
	root.AddCommand(controllerCommand(), ticketCommand(), nodeCommand())
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(io.Discard)
	return root.ExecuteContext(ctx)
}

// The black-box interface that other tests and tools rely on.
func TestControllerAndOperatorCommands(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, w, "controller", "run", "--data", dir, "--listen", "127.0.0.1:0", "--advertise", "10.0.2.2:0")
		_ = w.CloseWithError(io.EOF)
		ended <- err
	}()
	stdout := bufio.NewReader(r)
	line, err := stdout.ReadString('\n')
	if err != nil || !regexp.MustCompile(`^controller ready listen=127\.0\.0\.1:[1-9][0-9]* ca=sha256:[0-9a-f]{64}\n$`).MatchString(line) {
		t.Fatalf("got %q, %v, %v", line, err, <-ended)
	}

	operate := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), &out, append([]string{"--context", filepath.Join(dir, "operator.yaml")}, args...)...)
		return out.String(), err
	}
	out, err := operate("ticket", "create", "--ttl", "1h", "--node", "n1", "-o", "json")
	var ticket struct{ Ticket, Node string }
	if jsonErr := json.Unmarshal([]byte(out), &ticket); err != nil || jsonErr != nil || ticket.Ticket == "" || ticket.Node != "n1" {
		t.Errorf("ticket create: got %q, %v, %v", out, err, jsonErr)
	}
	if out, err := operate("node", "list", "-o", "json"); err != nil || out != "[]\n" {
		t.Errorf("node list: got %q, %v", out, err)
	}
	for _, args := range [][]string{{"node", "show", "n1"}, {"node", "remove", "n1"}, {"node", "logs", "n1", "-f", "--origin", "join", "--level", "warn", "--tail", "5"},
		{"node", "bundle", "n1"}, {"node", "bundle", "n1", "0123456789abcdef", "-o", "text"}} {
		_, err := operate(args...)
		if err == nil || !strings.HasSuffix(err.Error(), "node n1: the cluster has no node n1; reveille node list shows the names") {
			t.Errorf("%v: got %v", args, err)
		}
	}
	if _, err := operate("node", "list", "-o", "xml"); err == nil {
		t.Error("an unknown format was accepted")
	}

	cancel()
	if rest, err := io.ReadAll(stdout); err != nil || len(rest) != 0 {
		t.Errorf("more output than the one line: %q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("controller run: %v", err)
	}
	if _, err := operate("node", "list"); err == nil || !strings.HasPrefix(err.Error(), "list nodes: no controller of the context answers: ") {
		t.Errorf("with no controller: got %v", err)
	}
}
