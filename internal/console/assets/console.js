// What htmx does not do: ages that go on, keys, folded parts and selections that stay, and news of the
// stream. The pages work without it.
(function () {
  const age = seconds => seconds < 60 ? Math.max(0, Math.floor(seconds)) + ' s'
    : seconds < 3600 ? Math.floor(seconds / 60) + ' min'
      : seconds < 48 * 3600 ? Math.floor(seconds / 3600) + ' h' : Math.floor(seconds / 86400) + ' d'
  const within = (selector) => Array.from(document.querySelectorAll(selector))

  function refresh () {
    for (const time of within('time')) {
      const at = new Date(time.dateTime)
      time.textContent = time.textContent.replace(/\d+ (s|min|h|d)\b/, age((Date.now() - at) / 1000))
      time.title = at.toLocaleString()
    }
    for (const button of within('.copy')) button.hidden = !navigator.clipboard
    for (const all of within('#all')) all.hidden = false
  }
  setInterval(refresh, 10000)

  let open = []
  let checked = []
  document.addEventListener('htmx:sseBeforeMessage', () => {
    open = within('details[open][id]').map(d => d.id)
    checked = within('input[id]:checked').map(i => i.id)
  })
  document.addEventListener('htmx:afterSettle', () => {
    for (const id of open) {
      const details = document.getElementById(id)
      if (details) details.open = true
    }
    for (const id of checked) {
      const box = document.getElementById(id)
      if (box) box.checked = true
    }
    refresh()
  })
  document.addEventListener('htmx:sseError', () => { document.getElementById('offline').hidden = false })
  document.addEventListener('htmx:sseOpen', () => { document.getElementById('offline').hidden = true })

  document.addEventListener('change', event => {
    if (event.target.id === 'all') for (const box of within('input[form=bulk]')) box.checked = event.target.checked
  })
  document.addEventListener('click', event => {
    const button = event.target.closest('.copy')
    if (button) navigator.clipboard.writeText(button.previousElementSibling.textContent).then(() => { button.textContent = 'Copied' })
  })
  // The links that j and k go through are those with an id: rows of tables, and what was found.
  document.addEventListener('keydown', event => {
    const field = event.target.closest('input, select, textarea')
    if (event.key === 'Escape' && field) field.blur()
    if (field || event.ctrlKey || event.metaKey || event.altKey) return
    if (event.key === '/') {
      event.preventDefault()
      document.getElementById('q').select()
    }
    const step = { j: 1, k: -1 }[event.key]
    if (!step) return
    const links = within('main a[id]')
    const at = links.indexOf(document.activeElement)
    const next = links[at < 0 && step < 0 ? links.length - 1 : at + step]
    if (next) next.focus()
  })
  refresh()
})()
