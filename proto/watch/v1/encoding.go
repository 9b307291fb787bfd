package watchv1

import "bytes"

// EncodingOf returns the encoding of a stored object: Kubernetes' protobuf envelope, which begins
// with "k8s" and a zero byte, or otherwise JSON.
func EncodingOf(body []byte) Encoding {
	if bytes.HasPrefix(body, []byte("k8s\x00")) {
		return Encoding_ENCODING_KUBERNETES_PROTOBUF
	}
	return Encoding_ENCODING_JSON
}
