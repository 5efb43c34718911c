// Tells when the stream of a page is cut, and when it goes on. Everything else is htmx.
document.addEventListener('htmx:sseError', function () {
  document.getElementById('offline').hidden = false
})
document.addEventListener('htmx:sseOpen', function () {
  document.getElementById('offline').hidden = true
})
