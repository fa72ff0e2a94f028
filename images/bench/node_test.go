package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"reveille/images"
)

// guest builds an initramfs of testdata/guest.
func guest(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(dir, "init"), "./testdata/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build guest: %v\n%s", err, out)
	}
	kernel, err := images.FindKernel("../../build/deb")
	if err != nil {
		t.Fatalf("%v (make deps unpacks one)", err)
	}
	set, err := images.ParseSet("qemu")
	if err != nil {
		t.Fatal(err)
	}
	spec := images.Initramfs{Init: filepath.Join(dir, "init"), Kernel: kernel, Modules: set, Plain: true}
	if _, err := spec.WriteFile(filepath.Join(dir, "initramfs")); err != nil {
		t.Fatal(err)
	}
	return Config{Name: t.Name(), Kernel: kernel.Image, Initramfs: filepath.Join(dir, "initramfs")}
}

type machine struct {
	*Node
	t   *testing.T
	ctx context.Context
}

func build(t *testing.T, cfg Config) machine {
	t.Helper()
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	// Some ten times what it takes, for a machine with other work to do.
	ctx, cancel := context.WithTimeout(t.Context(), 240*time.Second)
	t.Cleanup(cancel)
	return machine{n, t, ctx}
}

func (m machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) wait(pattern string) []string {
	m.t.Helper()
	groups, err := m.WaitSerial(m.ctx, regexp.MustCompile(pattern))
	m.must(err)
	return groups
}

func (m machine) say(line string) {
	m.t.Helper()
	_, err := m.Port(0).Write([]byte(line + "\n"))
	m.must(err)
}

func TestNode(t *testing.T) {
	cfg := guest(t)
	cfg.NICs, cfg.TPM, cfg.Disk, cfg.Watchdog = 2, true, true, true
	cfg.NodeYAML = []byte("version: 1")
	cfg.Files = map[string][]byte{"reveille/given": []byte("42")}
	cfg.Append = "loglevel=0"
	m := build(t, cfg)

	m.must(m.PowerOn(m.ctx))
	m.wait("guest ready")
	for _, want := range []string{
		"interface eth0 " + m.MAC(0), "interface eth1 " + m.MAC(1), "tpm true",
		"boots before 0", "file given 42", "node.yaml version: 1",
		"load nonsense: load module nonsense: not in this image",
	} {
		m.wait(want)
	}
	for _, no := range []string{"bond0", "dummy0"} {
		if strings.Contains(string(m.Port(0).Bytes()), "interface "+no) {
			t.Errorf("loading a module made %s", no)
		}
	}

	t.Log("hot-plug, cables")
	i, err := m.AddNIC(m.ctx)
	m.must(err)
	m.wait("event add net eth2")
	m.say("up eth2")
	m.wait("is up eth2")
	m.must(m.SetLink(m.ctx, i, false))
	m.say("carrier eth2 0")
	m.wait("carrier of eth2 is 0")
	m.must(m.RemoveNIC(m.ctx, i))
	m.wait("event remove net eth2")

	t.Log("both NICs in a bond reach the host")
	m.say("bond")
	m.wait("bonded")
	for _, via := range []struct{ listen, dial string }{{"127.0.0.1:0", HostIPv4}, {"[::1]:0", HostIPv6}} {
		server := greeter(t, via.listen)
		_, port, _ := net.SplitHostPort(server)
		m.say("greet " + net.JoinHostPort(via.dial, port))
		m.wait(regexp.QuoteMeta(via.dial) + `\S* hello <nil>`)
	}

	t.Log("a reboot comes back, a power cut does not")
	m.Port(0).Mark()
	m.say("reboot")
	m.must(m.WaitReboots(m.ctx, 1))
	m.wait("boots before 1\r?\n(?s:.*)guest ready")
	m.must(m.PowerCut())
	if _, err := m.WaitSerial(m.ctx, regexp.MustCompile("never")); err == nil || !strings.Contains(err.Error(), "guest ready") {
		t.Errorf("error of a node that is off does not show its serial port: %v", err)
	}
	m.SetNodeYAML([]byte("version: 2"))
	m.must(m.PowerOn(m.ctx))
	m.wait("boots before 2(?s:.*)node.yaml version: 2(?s:.*)guest ready")
	m.say("off")
	select {
	case <-m.Off():
	case <-m.ctx.Done():
		t.Fatal("still on")
	}
	boots, err := ReadDisk(m.DiskImage(), "boots")
	m.must(err)
	if string(boots) != "xxx" {
		t.Errorf("the disk counted %q", boots)
	}
}

// What QEMU refuses is told in its words; a node that never was on can be closed.
func TestNodeThatCannotStart(t *testing.T) {
	m := build(t, Config{Kernel: "/nonsense", Initramfs: "/nonsense", TPM: true})
	if err := m.WaitReboots(m.ctx, 1); err == nil || len(m.Events()) > 0 {
		t.Errorf("waited for a node that was never on: %v", err)
	}
	<-m.Off()
	err := m.PowerOn(m.ctx)
	if err == nil || !strings.Contains(err.Error(), "node: power on: ") || !strings.Contains(err.Error(), "'/nonsense': No such file") {
		t.Errorf("power on without a kernel: %v", err)
	}
	if err := m.Reset(m.ctx); err == nil || !strings.Contains(err.Error(), "the node is off") {
		t.Errorf("reset of a node that is off: %v", err)
	}
	if err := m.PowerCut(); err != nil {
		t.Error(err)
	}
}

// greeter says hello to whoever connects.
func greeter(t *testing.T, address string) string {
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "hello")
			conn.Close()
		}
	}()
	return l.Addr().String()
}
