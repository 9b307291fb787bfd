// Package aggregation passes requests for APIs that other servers serve on to them. An APIService with a Service
// says which API, and where its servers are (kube-aggregator; KEP-1281, "API aggregation"). The servers trust
// the apiserver's client certificate, and take from headers who the user is.
package aggregation
