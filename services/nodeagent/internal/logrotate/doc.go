// Package logrotate keeps containers' logs from filling the disk. It renames the log of a running
// container that has grown too large, tells the runtime to start a new file, and removes the oldest
// renamed files (the kubelet's containerLogMaxSize and containerLogMaxFiles).
package logrotate
