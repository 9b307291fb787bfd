{{/* Parts specific to the pods of each service; see garboard.podTemplate. */}}

{{- define "garboard.apiserver.own" -}}
args:
  - --listen=0.0.0.0:6443
  - --cert-dir=/etc/garboard/pki
  - --tls-cert-file=/etc/garboard/pki/tls.crt
  - --tls-private-key-file=/etc/garboard/pki/tls.key
  - --service-cluster-ip-range={{ .Values.apiserver.serviceClusterIPRange }}
  - --shutdown-delay-duration={{ .Values.apiserver.shutdownDelayDuration }}
  - --etcd-servers={{ include "garboard.etcd.endpoints" . }}
  {{- if eq .Values.etcd.mode "external" }}
  - --etcd-cafile=/etc/garboard/etcd/ca.crt
  - --etcd-certfile=/etc/garboard/etcd/tls.crt
  - --etcd-keyfile=/etc/garboard/etcd/tls.key
  {{- else }}
  - --etcd-cafile=/etc/garboard/pki/etcd-ca.crt
  - --etcd-certfile=/etc/garboard/pki/etcd-client.crt
  - --etcd-keyfile=/etc/garboard/pki/etcd-client.key
  {{- end }}
  {{- include "garboard.commonArgs" . | nindent 2 }}
  {{- if eq .Values.nats.mode "builtin" }}
  - --nats-cert-file=/etc/garboard/pki/nats-client.crt
  - --nats-key-file=/etc/garboard/pki/nats-client.key
  {{- else if .Values.nats.external.clientCertificates }}
  - --nats-cert-file=/etc/garboard/nats/tls.crt
  - --nats-key-file=/etc/garboard/nats/tls.key
  {{- end }}
  - --nats-log-replicas={{ .Values.nats.logReplicas }}
ports:
  - { name: https, containerPort: 6443 }
probes:
  {{- include "garboard.probes" (list "HTTPS" "https" "/livez" "/readyz") | nindent 2 }}
volumeMounts:
  - { name: pki, mountPath: /etc/garboard/pki, readOnly: true }
  {{- if eq .Values.etcd.mode "external" }}
  - { name: etcd, mountPath: /etc/garboard/etcd, readOnly: true }
  {{- end }}
  {{- if eq .Values.nats.mode "external" }}
  - { name: nats, mountPath: /etc/garboard/nats, readOnly: true }
  {{- end }}
volumes:
  {{- include "garboard.pki" (list . "apiserver") | nindent 2 }}
  {{- if eq .Values.etcd.mode "external" }}
  - name: etcd
    secret: { secretName: {{ .Values.etcd.external.existingSecret | quote }}, defaultMode: 0440 }
  {{- end }}
  {{- include "garboard.nats.volume" . | nindent 2 }}
{{- end }}

{{- define "garboard.controllers.own" -}}
args:
  - --kubeconfig=/etc/garboard/pki/kubeconfig
  - --health-address=0.0.0.0:10257
  - --cluster-signing-cert-file=/etc/garboard/pki/ca.crt
  - --cluster-signing-key-file=/etc/garboard/pki/ca.key
  {{- include "garboard.commonArgs" . | nindent 2 }}
{{ include "garboard.follower.own" (list . "controllers" 10257) }}
{{- end }}

{{- define "garboard.scheduler.own" -}}
args:
  - --kubeconfig=/etc/garboard/pki/kubeconfig
  - --health-address=0.0.0.0:10259
  {{- include "garboard.commonArgs" . | nindent 2 }}
{{ include "garboard.follower.own" (list . "scheduler" 10259) }}
{{- end }}

{{/* Common parts of the controllers and the scheduler: (list $ "scheduler" 10259). */}}
{{- define "garboard.follower.own" -}}
{{- $root := index . 0 -}}
ports:
  - { name: metrics, containerPort: {{ index . 2 }} }
probes:
  {{- include "garboard.probes" (list "HTTP" "metrics" "/livez" "/readyz") | nindent 2 }}
volumeMounts:
  - { name: pki, mountPath: /etc/garboard/pki, readOnly: true }
  {{- if eq $root.Values.nats.mode "external" }}
  - { name: nats, mountPath: /etc/garboard/nats, readOnly: true }
  {{- end }}
volumes:
  {{- include "garboard.pki" (list $root (index . 1)) | nindent 2 }}
  {{- include "garboard.nats.volume" $root | nindent 2 }}
{{- end }}

{{/* The volume with the certificates for an external NATS. */}}
{{- define "garboard.nats.volume" -}}
{{- if eq .Values.nats.mode "external" -}}
- name: nats
  secret: { secretName: {{ .Values.nats.external.existingSecret | quote }}, defaultMode: 0440 }
{{- end -}}
{{- end }}
