// Package logrotate keeps containers' logs from filling the disk: the log of a running container
// that has grown too long is renamed, the runtime told to begin a new file, and the oldest of
// the renamed ones removed (the kubelet's containerLogMaxSize and containerLogMaxFiles).
package logrotate
