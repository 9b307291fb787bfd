// Package volumes creates the volumes of pods on the node: emptyDir, hostPath, configMap, secret,
// downwardAPI and projected volumes, including service account tokens. It finds those of claims, which
// outlive pods: their folders are in package localvolumes.
//
// Setup runs at every sync of a pod. It creates what is missing and updates files from their
// sources. The files of one volume change together or not at all: they are in a directory named by
// time, and renaming one symbolic link swaps old for new. The layout on disk is that of Kubernetes'
// AtomicWriter. Secrets, tokens and downward API files are kept in memory where the agent may mount
// it.
//
// Everything a container can reach is treated as hostile. The agent reads none of it back and
// creates files only exclusively and relative to an open directory. It mounts a subPath by the file
// it opened, never by name.
package volumes
