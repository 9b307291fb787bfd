package dns

import (
	"strconv"
	"sync/atomic"

	mdns "github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// Values of labels: CoreDNS distinguishes its servers, zones and views by them.
const (
	serverLabel = "dns://:53"
	zoneLabel   = "."
)

// source is what has answered: CoreDNS' plugin of that name.
type source uint8

const (
	byServer source = iota // CoreDNS has no plugin for it
	byZone
	byCache
	byForward
	bySearch
	sources
)

func (s source) String() string {
	return [...]string{"", "kubernetes", "cache", "forward", "autopath"}[s]
}

// rcodes is how many codes have a label of their own.
const rcodes = 24

// metrics are CoreDNS', with its names and labels.
type metrics struct {
	requests  *prometheus.CounterVec
	responses *prometheus.CounterVec
	took      prometheus.Observer
	// The sizes by transport: UDP, TCP.
	requestSize, responseSize [2]prometheus.Observer

	programmed                 prometheus.Observer
	panics, searches, rejected prometheus.Counter

	// Counters of requests by transport, family and type, and of responses by code and source, as
	// soon as they were needed.
	asked    [2][2][len(monitored) + 1]atomic.Pointer[prometheus.Counter]
	answered [rcodes][sources]atomic.Pointer[prometheus.Counter]
}

// monitored are the types of questions that have a label of their own, as with CoreDNS.
var monitored = [...]uint16{
	mdns.TypeAAAA, mdns.TypeA, mdns.TypeCNAME, mdns.TypeDNSKEY, mdns.TypeDS, mdns.TypeMX, mdns.TypeNSEC3, mdns.TypeNSEC,
	mdns.TypeNS, mdns.TypePTR, mdns.TypeRRSIG, mdns.TypeSOA, mdns.TypeSRV, mdns.TypeTXT, mdns.TypeHTTPS, mdns.TypeANY,
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	of := prometheus.Labels{"server": serverLabel, "zone": zoneLabel, "view": ""}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: buckets, ConstLabels: of,
		}, labels))
	}
	counter := func(name, help string, constant prometheus.Labels, labels ...string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name, Help: help, ConstLabels: constant,
		}, labels))
	}
	sizes := []float64{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3}
	asked := histogram("coredns_dns_request_size_bytes", "Sizes of questions, in bytes.", sizes, "proto")
	answered := histogram("coredns_dns_response_size_bytes", "Sizes of answers, in bytes.", sizes, "proto")
	m := &metrics{
		requests:  counter("coredns_dns_requests_total", "Questions, by transport, address family and type.", of, "proto", "family", "type"),
		responses: counter("coredns_dns_responses_total", "Answers, by code and what has answered.", of, "rcode", "plugin"),
		took: histogram("coredns_dns_request_duration_seconds", "Time until a question was answered.",
			prometheus.ExponentialBuckets(0.00025, 2, 16)).WithLabelValues(),
		programmed: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coredns_kubernetes_dns_programming_duration_seconds",
			Help:    "Time from a change of a pod until the names of its headless Service were known.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 20),
		}, []string{"service_kind"})).WithLabelValues("headless_with_selector"),
		panics: counter("coredns_panics_total", "Questions that caused a panic.", nil).WithLabelValues(),
		// The Forwarder counts its own under the same name.
		rejected: metric.Register(registerer, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coredns_forward_max_concurrent_rejects_total", Help: "Questions not forwarded because too many were in flight.",
		})),
		searches: counter("coredns_autopath_success_total", "Searches of pods that were answered at once.",
			prometheus.Labels{"server": serverLabel}).WithLabelValues(),
	}
	for i, proto := range [...]string{"udp", "tcp"} {
		m.requestSize[i], m.responseSize[i] = asked.WithLabelValues(proto), answered.WithLabelValues(proto)
	}
	return m
}

// request records a question.
func (m *metrics) request(a *ask) {
	proto, family := transport(a), 0
	if a.client.Is6() {
		family = 1
	}
	kind := len(monitored)
	for i, t := range monitored {
		if t == a.q.Type {
			kind = i
			break
		}
	}
	at := &m.asked[proto][family][kind]
	counter := at.Load()
	if counter == nil {
		text := "other"
		if kind < len(monitored) {
			text = mdns.TypeToString[monitored[kind]]
		}
		made := m.requests.WithLabelValues([...]string{"udp", "tcp"}[proto], strconv.Itoa(family+1), text)
		counter = &made
		at.Store(counter)
	}
	(*counter).Inc()
	m.requestSize[proto].Observe(float64(a.size))
}

// response records an answer of some bytes.
func (m *metrics) response(a *ask, rcode, size int, seconds float64) {
	at := &m.answered[min(max(rcode, 0), rcodes-1)][a.source]
	counter := at.Load()
	if counter == nil {
		text, ok := mdns.RcodeToString[rcode]
		if !ok {
			text = strconv.Itoa(rcode)
		}
		made := m.responses.WithLabelValues(text, a.source.String())
		counter = &made
		at.Store(counter)
	}
	(*counter).Inc()
	m.responseSize[transport(a)].Observe(float64(size))
	m.took.Observe(seconds)
}

func transport(a *ask) int {
	if a.tcp {
		return 1
	}
	return 0
}
