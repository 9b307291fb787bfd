package metric

import (
	"crypto/x509"
	"encoding/pem"
	"os"

	"github.com/prometheus/client_golang/prometheus"
)

// certificates shows when a process's own certificates end.
type certificates struct {
	desc   *prometheus.Desc
	files  []string
	inline map[string][]byte
}

// Certificates shows when the first of the certificates in each of some PEM files ends, as
// garboard_certificate_expiration_timestamp_seconds with the label file, and the same of PEM that
// was read from a file of another kind, such as a kubeconfig, by its name. The PEM files are read
// whenever the metrics are, so that renewed ones count. Empty names, files that are not there and
// files without a certificate show nothing.
func Certificates(inline map[string][]byte, files ...string) prometheus.Collector {
	return &certificates{
		desc: prometheus.NewDesc("garboard_certificate_expiration_timestamp_seconds",
			"When the certificate of a file ends, in seconds since 1970; the first to end of several.", []string{"file"}, nil),
		files: files, inline: inline,
	}
}

// Describe names the metric.
func (c *certificates) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect reads the files.
func (c *certificates) Collect(to chan<- prometheus.Metric) {
	show := func(file string, data []byte) {
		if end, ok := earliestEnd(data); ok {
			to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, end, file)
		}
	}
	seen := map[string]bool{}
	for file, data := range c.inline {
		seen[file] = true
		show(file, data)
	}
	for _, file := range c.files {
		if file == "" || seen[file] {
			continue
		}
		seen[file] = true
		if data, err := os.ReadFile(file); err == nil { // who needs the file says what is wrong with it
			show(file, data)
		}
	}
}

// earliestEnd is when the first of the certificates in PEM ends; false if there is none.
func earliestEnd(data []byte) (end float64, found bool) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if at := float64(cert.NotAfter.Unix()); !found || at < end {
			end, found = at, true
		}
	}
	return end, found
}
