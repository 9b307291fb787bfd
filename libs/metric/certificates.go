package metric

import (
	"crypto/x509"
	"encoding/pem"
	"os"

	"github.com/prometheus/client_golang/prometheus"
)

// certificates exports when a process's own certificates expire.
type certificates struct {
	desc   *prometheus.Desc
	files  []string
	inline map[string][]byte
}

// Certificates exports the earliest expiry of the certificates in each of some PEM files, as
// garboard_certificate_expiration_timestamp_seconds with the label file. It does the same for
// inline PEM, keyed by the name of the file it came from, such as a kubeconfig. It rereads the PEM
// files at each scrape, so that renewed ones count. Empty names, missing files and files without a
// certificate export nothing.
func Certificates(inline map[string][]byte, files ...string) prometheus.Collector {
	return &certificates{
		desc: prometheus.NewDesc("garboard_certificate_expiration_timestamp_seconds",
			"When the certificate in a file expires, in seconds since 1970; the earliest if there are several.", []string{"file"}, nil),
		files: files, inline: inline,
	}
}

// Describe sends the metric's description.
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
		if data, err := os.ReadFile(file); err == nil { // the component that uses the file reports the error
			show(file, data)
		}
	}
}

// earliestEnd returns when the first of the certificates in PEM data expires; found is false if
// there is none.
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
