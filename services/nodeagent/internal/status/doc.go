// Package status turns what the runtime holds of a pod into the status that the API shows
// (Generate, pure) and writes it there (Writer).
package status
