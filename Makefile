# Everything here runs as root on a fresh Debian with Go; `deps` installs what is
# missing. Products are in build/.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

# The kernel package that nodes boot, and the choice of its modules. For real
# machines: make image KERNEL=linux-image-amd64 MODULES=metal
KERNEL  ?= linux-image-cloud-amd64
MODULES ?= qemu
# What the soak tests boot besides: it has a driver for QEMU's watchdog.
FULL_KERNEL := linux-image-amd64

# A product says which commit it is of, and when that was made (seconds since
# 1970: a node knows it cannot be earlier than this). Nothing of this machine or
# of today gets into it, so the same commit gives the same bytes.
BUILD_ID   := $(shell git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
BUILD_TIME := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
GOBUILD    := CGO_ENABLED=0 go build -trimpath -buildvcs=false \
              -ldflags '-s -w -X main.buildID=$(BUILD_ID) -X main.buildTime=$(BUILD_TIME)'

# What tests, the demo and the image need, by Debian package.
PACKAGES := qemu-system-x86 swtpm swtpm-tools dnsmasq-base kea-dhcp4-server kea-dhcp6-server radvd iproute2 gcc libc6-dev git
# What `make soak` needs on top.
SOAK_PACKAGES := ovmf
# What `make proto` needs on top.
PROTO_PACKAGES := protobuf-compiler libprotobuf-dev

.PHONY: help deps image image-full demo test soak bench lint fuzz proto clean
help:
	@echo 'make image [FAULTS=1]  build/vmlinuz, build/initramfs.cpio.zst, build/reveille, build/init, build/launch'
	@echo 'make demo              a controller and two nodes on bad serial lines, in QEMU'
	@echo 'make test              everything: lint, race, guest and end-to-end tests'
	@echo 'make soak              the longer suites: run them before you call it done'
	@echo 'make bench             boot times by serial line, the console, sizes, memory'
	@echo 'make lint fuzz proto deps clean'

# ---- tools --------------------------------------------------------------------

# $(call install,PACKAGES) installs those that are missing.
define install
	@missing=$$(for p in $(1); do \
	    dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null | grep -qx installed || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	    apt-get update -q; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing; \
	fi
endef

deps: build/deb/.$(KERNEL)
	$(call install,$(PACKAGES))

# $(call unpack,METAPACKAGE) unpacks a kernel, which is never installed, into the
# target's folder. The metapackage names the current version. A list of packages
# older than the mirror gives a 404: update, try again.
define unpack
	rm -rf $(@D)
	mkdir -p $(@D)
	cd $(@D); \
	get() { \
	    version=$$(apt-cache depends --no-recommends $(1) | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1); \
	    [ -n "$$version" ] && apt-get -q -o APT::Sandbox::User=root download "$$version"; \
	}; \
	get || { apt-get update -q; get; }; \
	dpkg -x linux-image-*.deb .; \
	rm linux-image-*.deb
	touch $@
endef

build/deb/.$(KERNEL):
	$(call unpack,$(KERNEL))

build/deb-full/.$(FULL_KERNEL):
	$(call unpack,$(FULL_KERNEL))

# ---- products -----------------------------------------------------------------

ifeq ($(FAULTS),1)
INITRAMFS := build/initramfs-faults.cpio.zst
INIT      := build/init-faults
TAGS      := -tags faults
EXTRA     := --file build/vmserver:/bin/vmserver
else
INITRAMFS := build/initramfs.cpio.zst
INIT      := build/init
endif

image: deps
	$(GOBUILD) -o build/reveille .
	$(GOBUILD) $(TAGS) -o $(INIT) ./init
	$(GOBUILD) -o build/launch ./init/launch
	$(if $(EXTRA),$(GOBUILD) -o build/vmserver ./images/vmserver)
	cp build/deb/boot/vmlinuz-* build/vmlinuz.new && mv build/vmlinuz.new build/vmlinuz
	build/reveille image build --kernel-dir build/deb --init $(INIT) --file build/launch:/launch --modules $(MODULES) $(EXTRA) --out $(INITRAMFS)

# The full kernel with the init of `make image FAULTS=1`, beside the other.
image-full: build/deb-full/.$(FULL_KERNEL)
	$(MAKE) image FAULTS=1
	cp build/deb-full/boot/vmlinuz-* build/vmlinuz-full.new && mv build/vmlinuz-full.new build/vmlinuz-full
	build/reveille image build --kernel-dir build/deb-full --init build/init-faults --file build/launch:/launch --modules qemu --file build/vmserver:/bin/vmserver --out build/initramfs-full.cpio.zst

demo: image
	go run ./images/demo

# ---- checks -------------------------------------------------------------------

# $(call files,TAG), $(call folders,TAG), $(call names,TAG): the tests behind a
# build tag. Those of `guest` run in a virtual machine with a kernel of its own,
# and only they do, the machine being slow; those of `e2e` boot nodes.
files   = $(shell grep -lR --include=*_test.go '^//go:build .*\b$(1)\b' .)
folders = $(sort $(dir $(call files,$(1))))
names   = ^($(shell grep -ho '^func Test[A-Za-z0-9_]*' $(call files,$(1)) | cut -d' ' -f2 | paste -sd '|'))$$

test: lint
	$(MAKE) image
	$(MAKE) image FAULTS=1
	$(GOBUILD) -o build/guestexec ./images/guestexec
	CGO_ENABLED=1 .ci/gotest -race -timeout 15m ./...
	.ci/gotest -run '^TestStress$$' ./console
	CGO_ENABLED=0 .ci/gotest -tags guest -exec "$$PWD/build/guestexec" -p 1 -timeout 10m -run '$(call names,guest)' $(call folders,guest)
	.ci/gotest -tags e2e -p 1 -timeout 30m -run '$(call names,e2e)' $(call folders,e2e)

# What takes longer than a submission should: every way for an agent to die,
# every kind of serial line, a hardware watchdog, a firmware with variables.
soak:
	$(call install,$(SOAK_PACKAGES))
	$(MAKE) image-full
	.ci/gotest -tags 'e2e soak' -p 1 -timeout 90m -run '$(call names,soak)' $(call folders,soak)
	$(GOBUILD) -o build/guestexec ./images/guestexec
	CGO_ENABLED=0 .ci/gotest -tags 'guest soak' -exec "$$PWD/build/guestexec" -timeout 90m -run '^(TestKernel(Devices|NICs)|TestLACPPartner(Slow|Late))$$' ./netcfg
	seed=$$(date +%s); echo "any wish from any state: rapid.seed=$$seed"; \
	    go test -count=1 -timeout 60m -run '^TestAnyWishFromAnyState$$' ./netcfg -rapid.checks=100000 -rapid.seed=$$seed
	go test -count=1 -timeout 60m -run '^TestMachine$$' ./boot/supervise -rapid.checks=100000

lint: deps
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	[ -z "$$unformatted" ] || { echo "gofmt -w these: $$unformatted"; exit 1; }
	go vet ./...
	go vet -tags faults,e2e,guest,soak,bench ./...
	go tool staticcheck ./...
	go tool staticcheck -tags faults,e2e,guest,soak,bench ./...

# Each fuzz target for FUZZTIME.
FUZZTIME ?= 20s
fuzz:
	for pkg in $$(grep -lR --include=*_test.go '^func Fuzz' . | xargs -r -n1 dirname | sort -u); do \
	    for f in $$(grep -h -o '^func Fuzz[A-Za-z0-9_]*' $$pkg/*_test.go | cut -d' ' -f2); do \
	        echo "== $$pkg $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$pkg; \
	    done; \
	done

bench: image
	$(MAKE) image FAULTS=1
	@echo; stat -c '%n %s' build/vmlinuz build/initramfs.cpio.zst build/init build/launch build/reveille | \
	    awk '{ printf "%-28s %7.2f MiB\n", $$1, $$2 / 1048576 }'
	go test -run '^$$' -bench . ./console
	$(GOBUILD) -o build/guestexec ./images/guestexec
	.ci/peers "$$PWD/build/peers"
	cp build/launch build/peers/
	CGO_ENABLED=0 go test -count=1 -v -tags bench -exec "$$PWD/build/guestexec -tree $$PWD/build/peers" -timeout 20m -run '^TestPeers(Carrier|Names)?$$' ./netcfg
	CGO_ENABLED=0 go test -count=1 -v -tags bench -exec "$$PWD/build/guestexec -tree $$PWD/build/peers" -timeout 20m -run '^TestManyServices$$' ./boot/supervise
	go run ./images/bootbench

proto:
	$(call install,$(PROTO_PACKAGES))
	mkdir -p build/tools
	go build -o build/tools google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go
	PATH="$$PWD/build/tools:$$PATH" protoc -I . --go_out=. --go_opt=module=reveille \
	    --connect-go_out=. --connect-go_opt=module=reveille,simple boot/cluster/clusterv1/cluster.proto
	PATH="$$PWD/build/tools:$$PATH" protoc -I . --go_out=. --go_opt=module=reveille boot/cluster/storev1/store.proto

clean:
	rm -rf build
