// Package e2e boots the real image in QEMU: real kernel, real bond, real TPM,
// real store, real slow serial ports. Its tests have the build tag e2e; `make
// test` builds the image with fault hooks first, which they need.
package e2e
