// Package harness provides tests with real containers: a private containerd with its own state,
// socket, network and registry, with images built from the sources in test/containers/images. It
// needs root, and containerd, runc and the CNI plugins as packaged by Debian. It installs nothing,
// contacts no server outside the machine, and leaves nothing behind.
package harness
