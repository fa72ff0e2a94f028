// Command guest is the /init of the bench's own tests. It reports on ttyS0 what
// machine it woke up in, then does what is typed there.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/modules"
)

func main() {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		check(unix.Mount(m[0], m[1], m[0], 0, ""))
	}
	loader, err := modules.Open("/", slog.New(slog.NewTextHandler(os.Stderr, nil)))
	check(err)
	check(loader.Coldplug(context.Background()))
	for _, m := range []string{"vfat", "bonding", "dummy", "8021q", "fs-iso9660", "rtnl-link-bridge"} {
		check(loader.Load(m))
	}
	fmt.Printf("load nonsense: %v\n", loader.Load("nonsense"))
	report()
	go func() {
		check(loader.Watch(context.Background(), func(e modules.Event) {
			if e.Subsystem == "net" || e.Action == modules.Rescan {
				fmt.Printf("event %s net %s\n", e.Action, e.Interface)
			}
		}))
	}()
	fmt.Println("guest ready")
	obey()
}

func report() {
	ifs, err := net.Interfaces()
	check(err)
	for _, i := range ifs {
		fmt.Printf("interface %s %s\n", i.Name, i.HardwareAddr)
	}
	_, err = os.Stat("/dev/tpm0")
	fmt.Printf("tpm %v\n", err == nil)
	check(unix.Mount("/dev/vda", "/mnt", "vfat", 0, ""))
	boots, _ := os.ReadFile("/mnt/boots")
	fmt.Printf("boots before %d\n", len(boots))
	given, _ := os.ReadFile("/mnt/reveille/given")
	fmt.Printf("file given %s\n", given)
	f, err := os.OpenFile("/mnt/boots", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	check(err)
	_, err = f.WriteString("x")
	check(err)
	check(f.Sync())
	check(f.Close())
	yaml, _ := os.ReadFile("/sys/firmware/qemu_fw_cfg/by_name/opt/reveille/node.yaml/raw")
	fmt.Printf("node.yaml %s\n", yaml)
}

// obey runs the commands that are typed on the console.
func obey() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch cmd, arg, _ := strings.Cut(in.Text(), " "); cmd {
		case "carrier":
			link, want, _ := strings.Cut(arg, " ")
			fmt.Println("carrier of", link, "is", waitCarrier(link, want)) // not what the line echoes
		case "up":
			address(arg, nil)
			fmt.Println("is up", arg)
		case "bond":
			bond()
		case "greet":
			greet(arg)
		case "flood":
			fmt.Print(strings.Repeat("0123456789abcdef\n", 1000))
		case "reboot":
			check(unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART))
		case "off":
			check(unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
		}
	}
}

// bond joins the first two NICs in a bond with an IPv4 address; IPv6 comes by
// router advertisement. (Interfaces are made without netcfg, which has tests of
// its own.)
func bond() {
	write("/sys/class/net/bonding_masters", "+bond0")
	write("/sys/class/net/bond0/bonding/mode", "active-backup")
	write("/sys/class/net/bond0/bonding/miimon", "100")
	address("bond0", net.IPv4(10, 0, 2, 15))
	write("/sys/class/net/bond0/bonding/slaves", "+eth0")
	write("/sys/class/net/bond0/bonding/slaves", "+eth1")
	fmt.Println("bonded")
}

func write(file, s string) { check(os.WriteFile(file, []byte(s), 0)) }

// address gives an interface an IPv4 address and sets it up (netdevice(7)).
func address(name string, ip net.IP) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	check(err)
	defer unix.Close(s)
	req, err := unix.NewIfreq(name)
	check(err)
	if ip != nil {
		check(req.SetInet4Addr(ip.To4()))
		check(unix.IoctlIfreq(s, unix.SIOCSIFADDR, req))
	}
	req.SetUint16(unix.IFF_UP)
	check(unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req))
}

// greet reads what a server has to say, trying until the network is up.
func greet(server string) {
	for deadline := time.Now().Add(20 * time.Second); ; {
		conn, err := net.DialTimeout("tcp", server, 2*time.Second)
		if err == nil {
			b, err := io.ReadAll(conn)
			fmt.Printf("greeted %s: %s %v\n", server, b, err)
			return
		}
		if time.Now().After(deadline) {
			check(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func check(err error) {
	if err != nil {
		fmt.Println("guest failed:", err)
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
}

// waitCarrier waits until link's carrier is as wanted and says what it is in
// the end: QEMU's word that a cable is out is ahead of the guest's driver.
func waitCarrier(link, want string) (carrier string) {
	for range 600 { // a minute, for a machine with other work to do
		b, err := os.ReadFile("/sys/class/net/" + link + "/carrier")
		check(err)
		if carrier = strings.TrimSpace(string(b)); carrier == want {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return carrier
}
