// Package volumes makes the volumes of pods on the node: emptyDir, hostPath, configMap,
// secret, downwardAPI and projected ones, service account tokens among them.
//
// Setup is called at every sync of a pod: it makes what is missing and brings files up to
// date with what they are made from. Files of one volume change together or not at all: they
// lie in a directory named by time, and one rename of a symbolic link swaps old for new
// (Kubernetes' AtomicWriter, whose layout on disk it shares). Secrets, tokens and what the
// downward API says lie in memory, where the agent may mount it.
//
// What a container can reach is taken for hostile. The agent reads back nothing of it, creates
// files only exclusively and relative to an open directory, and mounts a subPath by the file
// that it opened, never by name.
package volumes
