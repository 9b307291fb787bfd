package defaults

import certificatesv1 "k8s.io/api/certificates/v1"

const certificateSeconds = 24 * 60 * 60

// PodCertificateRequest sets the defaults of a pod's request for a certificate.
func PodCertificateRequest(r *certificatesv1.PodCertificateRequest) {
	set(&r.Spec.MaxExpirationSeconds, int32(certificateSeconds))
}
