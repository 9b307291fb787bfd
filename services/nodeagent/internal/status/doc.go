// Package status derives a pod's API status from what the runtime holds of the pod (Generate, a
// pure function) and writes it to the API (Writer).
package status
