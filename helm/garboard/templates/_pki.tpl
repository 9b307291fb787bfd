{{/*
The folder /etc/garboard/pki of a consumer, as `garboard init` lays it out: (list $ "apiserver").
With cert-manager it combines the Secrets of the consumer's certificates with the Secret of the keys
that belong to no certificate, so that programs find the same file names in every mode.
*/}}
{{- define "garboard.pki" -}}
- name: pki
  projected:
    defaultMode: 0440
    sources:
      {{- include "garboard.pki.sources" . | nindent 6 }}
{{- end }}

{{- define "garboard.pki.sources" -}}
{{- $root := index . 0 -}}
{{- $consumer := index . 1 -}}
{{- if and (ne $root.Values.tls.mode "certManager") (eq $consumer "nodeagent") -}}
- secret: { name: {{ include "garboard.secret" . }}, items: [{ key: ca.crt, path: ca.crt }] }
{{- else if ne $root.Values.tls.mode "certManager" -}}
- secret: { name: {{ include "garboard.secret" . }} }
{{- else -}}
{{- $full := include "garboard.fullname" $root -}}
{{- if eq $consumer "apiserver" -}}
{{ include "garboard.pki.item" (list $full "cert-ca" "tls.crt" "ca.crt") }}
{{ include "garboard.pki.item" (list $full "keys" "sa.key" "sa.key" "nats-issuer.seed" "nats-issuer.seed" "nats-apiserver.seed" "nats-apiserver.seed") }}
{{ include "garboard.pki.item" (list $full "cert-apiserver" "tls.crt" "tls.crt" "tls.key" "tls.key") }}
{{ include "garboard.pki.item" (list $full "cert-front-proxy-ca" "tls.crt" "front-proxy-ca.crt") }}
{{ include "garboard.pki.item" (list $full "cert-front-proxy-client" "tls.crt" "front-proxy-client.crt" "tls.key" "front-proxy-client.key") }}
{{- if eq $root.Values.etcd.mode "builtin" }}
{{ include "garboard.pki.item" (list $full "cert-etcd-ca" "tls.crt" "etcd-ca.crt") }}
{{ include "garboard.pki.item" (list $full "cert-etcd-client" "tls.crt" "etcd-client.crt" "tls.key" "etcd-client.key") }}
{{- end }}
{{- if eq $root.Values.nats.mode "builtin" }}
{{ include "garboard.pki.item" (list $full "cert-nats-client" "tls.crt" "nats-client.crt" "tls.key" "nats-client.key") }}
{{- end }}
{{- else if eq $consumer "etcd" -}}
{{ include "garboard.pki.item" (list $full "cert-etcd-ca" "tls.crt" "etcd-ca.crt") }}
{{ include "garboard.pki.item" (list $full "cert-etcd-server" "tls.crt" "server.crt" "tls.key" "server.key") }}
{{ include "garboard.pki.item" (list $full "cert-etcd-peer" "tls.crt" "peer.crt" "tls.key" "peer.key") }}
{{- else if eq $consumer "nats" -}}
{{ include "garboard.pki.item" (list $full "cert-ca" "tls.crt" "ca.crt") }}
{{ include "garboard.pki.item" (list $full "cert-nats-server" "tls.crt" "server.crt" "tls.key" "server.key") }}
{{ include "garboard.pki.item" (list $full "keys" "nats-auth.conf" "nats-auth.conf") }}
{{ include "garboard.pki.item" (list $full "cert-routes-ca" "tls.crt" "routes-ca.crt") }}
{{ include "garboard.pki.item" (list $full "cert-nats-route" "tls.crt" "route.crt" "tls.key" "route.key") }}
{{- else if eq $consumer "nodeagent" -}}
{{ include "garboard.pki.item" (list $full "cert-ca" "tls.crt" "ca.crt") }}
{{- else -}}
{{- if eq $consumer "controllers" -}}
{{ include "garboard.pki.item" (list $full "cert-ca" "tls.crt" "ca.crt" "tls.key" "ca.key") }}
{{ include "garboard.pki.item" (list $full "keys" "sa.key" "sa.key") }}
{{- else -}}
{{ include "garboard.pki.item" (list $full "cert-ca" "tls.crt" "ca.crt") }}
{{- end }}
{{- if eq $consumer "admin" }}
{{ include "garboard.pki.item" (list $full "keys" "bootstrap-token" "bootstrap-token") }}
{{- end }}
{{ include "garboard.pki.item" (list $full (printf "cert-%s" $consumer) "tls.crt" "tls.crt" "tls.key" "tls.key") }}
- configMap: { name: {{ $full }}-kubeconfigs, items: [{ key: kubeconfig, path: kubeconfig }] }
{{- end -}}
{{- end -}}
{{- end }}

{{/* A source of a projected volume: (list FULLNAME SECRET KEY PATH KEY PATH …). */}}
{{- define "garboard.pki.item" -}}
{{- $given := . -}}
- secret:
    name: {{ index . 0 }}-{{ index . 1 }}
    items:
      {{- range $i := untilStep 2 (len .) 2 }}
      - { key: {{ index $given $i }}, path: {{ index $given (add $i 1 | int) }} }
      {{- end }}
{{- end }}
