// Package harness gives tests real containers: a private containerd with its own state, socket,
// network and registry, with images built from the sources in test/containers/images. It needs
// root, and containerd, runc and the CNI plugins as Debian packages them; it installs nothing,
// asks no server outside the machine, and leaves nothing behind.
package harness
