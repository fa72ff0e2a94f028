package bench

// startTPM starts the TPM with one end of a connection; QEMU gets the other. It
// ends with QEMU, and its state stays in the node's directory.
func (n *Node) startTPM(fds *fdTable) error {
	ours, theirs, err := wire()
	if err != nil {
		return err
	}
	n.tpm, err = start("swtpm", []string{
		"socket", "--tpm2", "--terminate",
		"--tpmstate", "dir=" + n.tpmDir(), "--ctrl", "type=unixio,clientfd=3",
	}, ours)
	if err != nil {
		theirs.Close()
		return err
	}
	fds.add("tpm", theirs)
	return nil
}
